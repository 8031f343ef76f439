package binaries_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]binaries.Version{
		"2.0.0-xenial-amd64":       {Number: binaries.Number{Major: 2}, Series: "xenial", Arch: "amd64"},
		"2.0-beta9-xenial-arm64":   {Number: binaries.Number{Major: 2, Tag: "beta", Patch: 9}, Series: "xenial", Arch: "arm64"},
		"1.25.3.7-trusty-ppc64el":  {Number: binaries.Number{Major: 1, Minor: 25, Patch: 3, Build: 7}, Series: "trusty", Arch: "ppc64el"},
		"2.0-rc1.12-noble-s390x":   {Number: binaries.Number{Major: 2, Tag: "rc", Patch: 1, Build: 12}, Series: "noble", Arch: "s390x"},
		"0.0.0-noble-amd64":        {Series: "noble", Arch: "amd64"},
		"3.999999999.0-noble-i386": {Number: binaries.Number{Major: 3, Minor: 999999999}, Series: "noble", Arch: "i386"},
	} {
		got, err := binaries.Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%q prints as %q", text, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "2.0.0", "2.0.0-xenial", "2.0.0--amd64", "x-xenial-amd64", "2-xenial-amd64", "2.0-xenial-amd64", "9999999999.0.0-a-b",
		"2.0.0-../../etc-amd64", "2.0.0-jammy-../x", "2.0.0-.-amd64", "2.0.0-jammy-..", "2.0.0-a/b-amd64", "2.0.0-jammy\\x-amd64", "2.0.0-jam\x00my-amd64", "2.0.0-jammy-amd64\n", "2.0.0-" + strings.Repeat("j", 65) + "-amd64"} {
		if v, err := binaries.Parse(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("Parse(%q) = %v, %v, want NotValid", text, v, err)
		}
	}
	for _, text := range []string{"", "2", "2.0", "2.0.0.", "2.0-9", "2.0-beta", "v2.0.0", "2.0.0\n"} {
		if n, err := binaries.ParseNumber(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseNumber(%q) = %v, %v, want NotValid", text, n, err)
		}
	}
}

func TestCompare(t *testing.T) {
	order := []string{"0.0.0", "1.25.3", "1.25.3.1", "2.0-alpha1", "2.0-beta9", "2.0-beta10", "2.0-rc1", "2.0.0", "2.0.1", "2.1.0", "10.0.0"}
	var numbers []binaries.Number
	for _, text := range order {
		n, err := binaries.ParseNumber(text)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append([]binaries.Number{n}, numbers...)
	}
	slices.SortFunc(numbers, binaries.Number.Compare)
	for i, n := range numbers {
		if n.String() != order[i] {
			t.Errorf("number %d is %s, want %s", i, n, order[i])
		}
	}
	if !numbers[0].IsZero() || numbers[1].IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestJSON(t *testing.T) {
	type doc struct {
		Number  binaries.Number  `json:"number"`
		Version binaries.Version `json:"version"`
	}
	v, err := binaries.Parse("2.0.0-xenial-amd64")
	if err != nil {
		t.Fatal(err)
	}
	want := doc{Number: binaries.Number{Major: 2, Tag: "beta", Patch: 9}, Version: v}
	data, err := json.Marshal(want)
	if err != nil || string(data) != `{"number":"2.0-beta9","version":"2.0.0-xenial-amd64"}` {
		t.Errorf("Marshal = %s, %v", data, err)
	}
	var got doc
	if err := json.Unmarshal(data, &got); err != nil || got != want {
		t.Errorf("Unmarshal = %+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"number":"","version":""}`), &got); err != nil || got != (doc{}) {
		t.Errorf("empty texts give %+v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"number":"cheese"}`), &got); err == nil {
		t.Error("cheese was accepted")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"2.0.0-xenial-amd64", "2.0-beta9-x-y", "1.2.3.4-a-b", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := binaries.Parse(text)
		if err != nil {
			return
		}
		if again, err := binaries.Parse(v.String()); err != nil || again != v {
			t.Errorf("%q prints as %q, which gives %v, %v", text, v, again, err)
		}
	})
}
