package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestRevision(t *testing.T) {
	rev := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	tests := []struct {
		name     string
		settings []debug.BuildSetting
		want     string
	}{
		{"unknown", nil, ""},
		{"clean", []debug.BuildSetting{rev, {Key: "vcs.modified", Value: "false"}}, "0123456789ab"},
		{"changed", []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, rev}, "0123456789ab+"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := revision(test.settings); got != test.want {
				t.Errorf("revision = %q, want %q", got, test.want)
			}
		})
	}
	Revision() // works outside a repository too
}
