package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/internal/buildinfo"
)

func TestVersionIsToldByCommandAndFlag(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		var out, errs bytes.Buffer
		if err := run(t.Context(), []string{arg}, &out, &errs); err != nil {
			t.Errorf("%s = %v", arg, err)
		}
		if want := "provisionerd " + buildinfo.Version + "\n"; out.String() != want || errs.Len() > 0 {
			t.Errorf("%s prints %q and %q, want %q", arg, out.String(), errs.String(), want)
		}
	}
}

func TestBoundsOfTheModelCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"give 1m to 1h":          {"--agent-file", "x", "--installer-silence", "59s"},
		"2h0m0s is out of":       {"--agent-file", "x", "--installer-silence", "2h"},
		"give 1m to 4h":          {"--agent-file", "x", "--installer-boot", "5h"},
		"give 1s to 1m":          {"--agent-file", "x", "--lease", "2m"},
		"give 10s to 30m":        {"--agent-file", "x", "--bmc-patience", "1s"},
		"give 1 to 10000":        {"--agent-file", "x", "--installs-at-once", "0"},
		"no agent file named":    {},
		"is not a model's UUID:": {"--agent-file", "x", "--model", "default"},
	} {
		var out, errs bytes.Buffer
		if err := run(t.Context(), append([]string{"model"}, args...), &out, &errs); err == nil || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("model %v = %v, says %q, want one line with %q", args, err, errs.String(), want)
		}
	}
}
