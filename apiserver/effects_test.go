// The tables of facades and of their effects are not exported, and this is about
// all of both.
package apiserver

import (
	"strings"
	"testing"
)

func TestEveryMethodHasAnEffect(t *testing.T) {
	r, err := newRegistry(facades())
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool) // Facade.Method
	for _, versions := range r.byName {
		for _, f := range versions {
			for _, m := range f.methods.Names() {
				known[f.name+"."+m] = true
				if f.effects[m] == unknown {
					t.Errorf("%s(%d).%s is in no row of effects(): say there whether it reads or writes", f.name, f.version, m)
				}
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
