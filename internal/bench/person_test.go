package main

import (
	"strings"
	"testing"
)

// A person's process that is told nothing, or nonsense, ends and says so.
func TestPersonIsToldWhereToConnect(t *testing.T) {
	for _, in := range []string{"", "rubbish"} {
		var out strings.Builder
		if err := servePerson(t.Context(), strings.NewReader(in), &out); err == nil || out.String() != "" {
			t.Errorf("servePerson of %q = %v and %q, want an error alone", in, err, out.String())
		}
	}
}
