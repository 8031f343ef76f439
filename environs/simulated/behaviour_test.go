package simulated_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/simulated"
)

func TestParseDistribution(t *testing.T) {
	for _, text := range []string{"", "fixed 2s", "uniform 1s 5s", "normal 3s 1s", "exponential 2s"} {
		d, err := simulated.ParseDistribution(text)
		if err != nil || d.String() != text {
			t.Errorf("ParseDistribution(%q) = %q, %v", text, d, err)
		}
		data, err := json.Marshal(d)
		var back simulated.Distribution
		if err != nil || json.Unmarshal(data, &back) != nil || back != d {
			t.Errorf("%q travels as %s and arrives as %q, %v", text, data, back, err)
		}
	}
	for _, text := range []string{"cheese", "fixed", "fixed 1s 2s", "fixed x", "fixed -1s", "uniform 5s 1s", "normal 1s", "1s"} {
		if d, err := simulated.ParseDistribution(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseDistribution(%q) = %q, %v, want NotValid", text, d, err)
		}
	}
}

func FuzzParseDistribution(f *testing.F) {
	for _, s := range []string{"", "fixed 2s", "uniform 1s 5s", "normal 3s 1s", "exponential 2s", "fixed 1s 2s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := simulated.ParseDistribution(text)
		if err != nil {
			return
		}
		if again, err := simulated.ParseDistribution(d.String()); err != nil || again != d {
			t.Errorf("%q prints as %q, which gives %q, %v", text, d, again, err)
		}
	})
}

// took returns how long the starts of n machines take on a rack with a
// distribution and a seed.
func took(t *testing.T, dist string, seed uint64, n int) []time.Duration {
	t.Helper()
	d, err := simulated.ParseDistribution(dist)
	if err != nil {
		t.Fatal(err)
	}
	var out []time.Duration
	synctest.Test(t, func(t *testing.T) {
		r := newRack(t, simulated.Options{Behaviour: &simulated.Behaviour{
			Seed: seed, Delays: map[simulated.Call]simulated.Distribution{simulated.CallStart: d},
		}})
		for i := range n {
			began := time.Now()
			mustStart(t, r, request(t, fmt.Sprint(i)))
			out = append(out, time.Since(began))
		}
	})
	return out
}

func TestDistributionsHaveTheirShape(t *testing.T) {
	for _, c := range []struct {
		text      string
		mean      time.Duration
		low, high time.Duration
	}{
		{"", 0, 0, 0},
		{"fixed 2s", 2 * time.Second, 2 * time.Second, 2 * time.Second},
		{"uniform 1s 5s", 3 * time.Second, time.Second, 5 * time.Second},
		{"normal 3s 1s", 3 * time.Second, 0, 10 * time.Second},
		{"exponential 2s", 2 * time.Second, 0, 40 * time.Second},
	} {
		var sum time.Duration
		all := took(t, c.text, 1, 2000)
		for _, d := range all {
			sum += d
			if d < c.low || d > c.high {
				t.Errorf("%q: %v is outside of %v to %v", c.text, d, c.low, c.high)
			}
		}
		mean := sum / time.Duration(len(all))
		if math.Abs(float64(mean-c.mean)) > float64(c.mean)/10 {
			t.Errorf("%q: mean %v, want about %v", c.text, mean, c.mean)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	a, b, other := took(t, "exponential 2s", 1, 20), took(t, "exponential 2s", 1, 20), took(t, "exponential 2s", 2, 20)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("one seed gives %v and %v", a, b)
	}
	if fmt.Sprint(a) == fmt.Sprint(other) {
		t.Error("two seeds give the same")
	}
}

func TestRatesOfFaults(t *testing.T) {
	r := newRack(t, simulated.Options{Behaviour: &simulated.Behaviour{
		Seed:   3,
		Faults: map[simulated.Call]map[simulated.FaultKind]float64{simulated.CallStart: {simulated.FaultBusy: 0.2, simulated.FaultPermanent: 0.1}},
	}})
	var busy, permanent, fine int
	const n = 3000
	for i := range n {
		_, err := r.Start(t.Context(), request(t, fmt.Sprint(i)))
		switch {
		case err == nil:
			fine++
		case errors.Is(err, environs.ErrBusy):
			busy++
		case errors.Is(err, environs.ErrPermanent):
			permanent++
		}
	}
	for _, c := range []struct {
		name      string
		got, want int
	}{{"busy", busy, n / 5}, {"permanent", permanent, n / 10}, {"fine", fine, 7 * n / 10}} {
		if math.Abs(float64(c.got-c.want)) > 0.15*float64(c.want) {
			t.Errorf("%s: %d of %d, want about %d", c.name, c.got, n, c.want)
		}
	}
}

func TestBehaviourValidate(t *testing.T) {
	type faults = map[simulated.Call]map[simulated.FaultKind]float64
	for name, b := range map[string]simulated.Behaviour{
		"unknown call of delay": {Delays: map[simulated.Call]simulated.Distribution{"cheese": {}}},
		"unknown call of fault": {Faults: faults{"cheese": {"busy": 1}}},
		"unknown kind":          {Faults: faults{"start": {"cheese": 1}}},
		"kind of another call":  {Faults: faults{"list": {"answer-lost": 1}}},
		"boot has no faults":    {Faults: faults{"boot": {"busy": 1}}},
		"rate too high":         {Faults: faults{"start": {"busy": 1.5}}},
		"negative rate":         {Faults: faults{"start": {"busy": -0.5}}},
		"no number":             {Faults: faults{"start": {"busy": math.NaN()}}},
		"too much together":     {Faults: faults{"start": {"busy": 0.6, "hang": 0.6}}},
	} {
		if err := b.Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: Validate() = %v, want NotValid", name, err)
		}
		if _, err := simulated.NewRack(simulated.Options{Behaviour: &b}); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: NewRack = %v, want NotValid", name, err)
		}
	}
	for _, b := range []simulated.Behaviour{{}, simulated.DefaultBehaviour()} {
		if err := b.Validate(); err != nil {
			t.Errorf("Validate() = %v", err)
		}
	}
}
