package base_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
)

func TestBaseAndSeries(t *testing.T) {
	for text, series := range map[string]string{
		"ubuntu@22.04": "jammy", "ubuntu@24.04": "noble", "ubuntu@20.04": "focal", "ubuntu@16.04": "xenial",
		"ubuntu@12.10": "quantal", "debian@12": "bookworm", "centos@7": "centos7",
	} {
		b, err := base.Parse(text)
		if err != nil || b.String() != text {
			t.Errorf("Parse(%q) = %v, %v", text, b, err)
		}
		if got, err := b.Series(); err != nil || got != series {
			t.Errorf("%s.Series() = %q, %v, want %q", text, got, err, series)
		}
		if got, err := base.FromSeries(series); err != nil || got != b {
			t.Errorf("FromSeries(%q) = %v, %v, want %v", series, got, err, b)
		}
		if risky, err := base.Parse(text + "/stable"); err != nil || risky != b {
			t.Errorf("Parse(%s/stable) = %v, %v", text, risky, err)
		}
	}
}

func TestUnknownBaseSaysWhatWouldBeRight(t *testing.T) {
	for text, want := range map[string]string{
		"":             "ubuntu@24.04",
		"jammy":        "ubuntu@24.04",
		"ubuntu@":      "ubuntu@24.04",
		"@22.04":       "ubuntu@24.04",
		"ubuntu@99.04": "ubuntu@22.04",
		"plan9@4":      "centos@9",
	} {
		_, err := base.Parse(text)
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want NotValid naming %s", text, err, want)
		}
	}
	if _, err := base.FromSeries("nosuch"); !errors.Is(err, errors.NotValid) {
		t.Errorf("FromSeries(nosuch) = %v, want NotValid", err)
	}
}

func TestDefaultIsAnLTS(t *testing.T) {
	if got := base.Default().String(); got != "ubuntu@24.04" {
		t.Errorf("Default() = %s", got)
	}
	if s, err := base.Default().Series(); err != nil || s != base.DefaultSeries() {
		t.Errorf("DefaultSeries() = %s, want %s, %v", base.DefaultSeries(), s, err)
	}
}

func TestJSON(t *testing.T) {
	b := base.Base{Name: "ubuntu", Channel: "22.04"}
	data, err := json.Marshal(b)
	if err != nil || string(data) != `{"name":"ubuntu","channel":"22.04"}` {
		t.Errorf("Marshal = %s, %v", data, err)
	}
	var back base.Base
	if err := json.Unmarshal([]byte(`{"name":"ubuntu","channel":"22.04/stable"}`), &back); err != nil || back != b {
		t.Errorf("Unmarshal = %v, %v", back, err)
	}
	if (base.Base{}).String() != "" || !(base.Base{}).IsZero() || b.IsZero() {
		t.Error("the zero Base is wrong")
	}
}
