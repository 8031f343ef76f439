// Package size reads and prints the whole numbers and memory sizes of
// constraints and hardware.
package size

import (
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/juju/errors"
)

// What is wrong with text that is not a count or a size. The texts are part
// of the API's answers.
const (
	ErrCount = errors.ConstError("must be a non-negative integer")
	ErrMiB   = errors.ConstError("must be a non-negative float with optional M/G/T/P suffix")
)

// decimal is what counts as a number: the wider forms that strconv knows
// (NaN, hexadecimal, exponents, underscores) are refused.
var decimal = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)$`)

// ParseCount reads a non-negative whole number; the empty text is zero. It
// returns ErrCount for anything else.
func ParseCount(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, ErrCount
	}
	return n, nil
}

// ParseMiB reads a size and returns it in MiB, rounded up. The text is a
// decimal number with an optional suffix M (the default), G, T or P, each
// 1024 times the one before; the empty text is zero. It returns ErrMiB for
// anything else, also for a size too big to hold.
func ParseMiB(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	factor := uint64(1)
	number := text
	if i := strings.IndexByte("MGTP", text[len(text)-1]); i >= 0 {
		factor = 1 << (10 * i)
		number = text[:len(text)-1]
	}
	if !decimal.MatchString(number) {
		return 0, ErrMiB
	}
	// Whole numbers stay exact, however big.
	if whole, err := strconv.ParseUint(number, 10, 64); err == nil {
		high, low := bits.Mul64(whole, factor)
		if high != 0 {
			return 0, ErrMiB
		}
		return low, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, ErrMiB
	}
	f = math.Ceil(f * float64(factor))
	if f >= math.MaxUint64 {
		return 0, ErrMiB
	}
	return uint64(f), nil
}

// FormatMiB prints a size in MiB so that ParseMiB reads it back unchanged.
func FormatMiB(mib uint64) string { return strconv.FormatUint(mib, 10) + "M" }
