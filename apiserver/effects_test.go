// The tables of facades and of their effects are not exported, and this is about
// all of both.
package apiserver

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEveryMethodHasAnEffect(t *testing.T) {
	r, err := newRegistry(facades(), effects())
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool) // Facade.Method
	for _, all := range r.byName {
		for _, f := range all.byNumber {
			for name := range f.methods {
				known[f.name+"."+name] = true
			}
		}
	}
	seen := make(map[string]bool)
	for _, row := range effects() {
		for _, m := range strings.Fields(row.methods) {
			name := row.facade + "." + m
			if seen[name] {
				t.Errorf("%s is in effects() twice", name)
			}
			seen[name] = true
			if !known[name] {
				t.Errorf("%s is in effects(), but is no method", name)
			}
		}
	}
}

func TestWhatNoBlockStopsIsThere(t *testing.T) {
	for name, why := range despite() {
		facade, method, _ := strings.Cut(name, ".")
		if effectsOf(effects(), facade)[method] != writes {
			t.Errorf("%s is in despite(), but is no method that writes", name)
		}
		if why == "" {
			t.Errorf("%s is in despite() without a reason", name)
		}
	}
}

// TestReadersCannotWrite goes through who.golden, which another test holds to what
// the server does.
func TestReadersCannotWrite(t *testing.T) {
	own := map[string]bool{ // each looks at what it is about
		"ModelManager.DestroyModels":     true,
		"ModelManager.ModifyModelAccess": true,
		"UserManager.SetPassword":        true,
	}
	text, err := os.ReadFile("testdata/who.golden")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(text)) {
		method, callers, _ := strings.Cut(line, ": ")
		facade, rest, _ := strings.Cut(method, "(")
		_, rest, _ = strings.Cut(rest, ").")
		name, _, _ := strings.Cut(rest, " ")
		if effectsOf(effects(), facade)[name] != writes || own[facade+"."+name] {
			continue
		}
		checked++
		if slices.Contains(strings.Fields(callers), "reader") {
			t.Errorf("%s.%s may be called by a reader", facade, name)
		}
	}
	if checked < 30 {
		t.Errorf("%d methods checked, want all that write", checked)
	}
}
