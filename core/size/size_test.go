package size_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/size"
)

func TestParseMiB(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
		bad  bool
	}{
		{text: "", want: 0},
		{text: "0", want: 0},
		{text: "512", want: 512},
		{text: "512M", want: 512},
		{text: "1.5G", want: 1536},
		{text: "0.1", want: 1},
		{text: ".5G", want: 512},
		{text: "36.2T", want: 37958452},
		{text: "18.9P", want: 20293720474},
		{text: "18446744073709551615M", want: 18446744073709551615},
		{text: "18446744073709551615G", bad: true},
		{text: "99999999999999999999", bad: true},
		{text: "cheese", bad: true},
		{text: "-1", bad: true},
		{text: "32Y", bad: true},
		{text: "M", bad: true},
		{text: "NaN", bad: true},
		{text: "Inf", bad: true},
		{text: "1e3", bad: true},
		{text: "0x10", bad: true},
		{text: "1 G", bad: true},
	} {
		got, err := size.ParseMiB(c.text)
		if c.bad {
			if !errors.Is(err, size.ErrMiB) {
				t.Errorf("ParseMiB(%q) = %d, %v, want ErrMiB", c.text, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("ParseMiB(%q) = %d, %v, want %d", c.text, got, err, c.want)
		}
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "0": 0, "44": 44, "18446744073709551615": 18446744073709551615} {
		if got, err := size.ParseCount(text); err != nil || got != want {
			t.Errorf("ParseCount(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"cheese", "-1", "123.45", "+1", "1_0", " 1"} {
		if got, err := size.ParseCount(text); !errors.Is(err, size.ErrCount) {
			t.Errorf("ParseCount(%q) = %d, %v, want ErrCount", text, got, err)
		}
	}
}

func FuzzParseMiB(f *testing.F) {
	for _, s := range []string{"", "0", "1.5G", "36.2T", "32Y", "NaN", "18446744073709551615"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := size.ParseMiB(text)
		if err != nil {
			return
		}
		if again, err := size.ParseMiB(size.FormatMiB(n)); err != nil || again != n {
			t.Errorf("ParseMiB(FormatMiB(%d)) = %d, %v", n, again, err)
		}
	})
}
