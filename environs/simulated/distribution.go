package simulated

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/juju/errors"
)

// Distribution says how long something takes. The zero Distribution is no time
// at all. As text it is one of
//
//	fixed 2s
//	uniform 1s 5s        from, to
//	normal 3s 1s         mean, standard deviation; never below zero
//	exponential 2s       mean; never above twenty times it
type Distribution struct {
	shape string
	a, b  time.Duration
}

// shapes has the number of durations that each shape takes.
var shapes = map[string]int{"fixed": 1, "uniform": 2, "normal": 2, "exponential": 1}

// ParseDistribution reads a Distribution; empty text gives the zero one. It
// returns an error satisfying errors.NotValid.
func ParseDistribution(text string) (Distribution, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return Distribution{}, nil
	}
	want, ok := shapes[fields[0]]
	if !ok || len(fields) != 1+want {
		return Distribution{}, errors.NotValidf("distribution %q (want fixed T, uniform FROM TO, normal MEAN DEVIATION or exponential MEAN)", text)
	}
	d := Distribution{shape: fields[0]}
	for i, f := range fields[1:] {
		t, err := time.ParseDuration(f)
		if err != nil || t < 0 {
			return Distribution{}, errors.NotValidf("duration %q in distribution %q", f, text)
		}
		if i == 0 {
			d.a = t
		} else {
			d.b = t
		}
	}
	if d.shape == "uniform" && d.b < d.a {
		return Distribution{}, errors.NotValidf("distribution %q: its end before its start", text)
	}
	return d, nil
}

// String prints d so that ParseDistribution reads it back.
func (d Distribution) String() string {
	text := d.shape
	for _, t := range []time.Duration{d.a, d.b}[:shapes[d.shape]] {
		text += " " + t.String()
	}
	return text
}

// MarshalText writes d as String does.
func (d Distribution) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Distribution) UnmarshalText(text []byte) error {
	parsed, err := ParseDistribution(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// sample draws a duration.
func (d Distribution) sample(r *rand.Rand) time.Duration {
	switch d.shape {
	case "fixed":
		return d.a
	case "uniform":
		return d.a + time.Duration(r.Float64()*float64(d.b-d.a))
	case "normal":
		return max(0, d.a+time.Duration(r.NormFloat64()*float64(d.b)))
	case "exponential":
		return time.Duration(min(20, r.ExpFloat64()) * float64(d.a))
	}
	return 0
}
