package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// figure is a number with its unit, as Go's benchmarks print it.
type figure struct {
	value float64
	unit  string
}

// report prints one line: what was measured, how many times, and what came out.
func (b *bench) report(name string, times int, figures ...figure) {
	fmt.Fprintln(b.out, line(name, times, figures))
}

func line(name string, times int, figures []figure) string {
	var text strings.Builder
	fmt.Fprintf(&text, "BenchmarkSite/%s\t%d", name, times)
	for _, f := range figures {
		fmt.Fprintf(&text, "\t%s %s", number(f.value), f.unit)
	}
	return text.String()
}

// number prints three significant digits at least.
func number(v float64) string {
	digits := 0
	for at := math.Abs(v); at > 0 && at < 100 && digits < 4; at *= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f", digits, v)
}

// per returns a duration divided among many, in microseconds.
func per(d time.Duration, n int, unit string) figure {
	return figure{float64(d.Nanoseconds()) / 1e3 / float64(max(n, 1)), unit}
}

// quantile returns the value that a share of all values does not exceed; 0 of
// none. It sorts them.
func quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	i := int(math.Ceil(share*float64(len(all)))) - 1
	return all[min(max(i, 0), len(all)-1)]
}

// millis returns a quantile in milliseconds.
func millis(all []time.Duration, share float64, unit string) figure {
	return figure{float64(quantile(all, share).Nanoseconds()) / 1e6, unit}
}
