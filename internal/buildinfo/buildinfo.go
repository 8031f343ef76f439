// Package buildinfo tells which build of Slipway this is.
package buildinfo

import "runtime/debug"

// Version is the version of this build, three numbers parted by dots. Agents,
// servers and commands all have the same. It is a variable for the linker alone,
// which sets it in packages and in tests of upgrades.
var Version = "0.1.0"

// commit is the revision, shortened, where the linker sets it: packages are built
// to be the same in any folder, and so without what the Go tool notes.
var commit string

// Revision returns the revision that was built, shortened, with "+" behind it if
// files had been changed; empty if that is not known.
func Revision() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return revision(info.Settings)
}

func revision(settings []debug.BuildSetting) string {
	var out, changed string
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			out = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	if out == "" {
		return ""
	}
	return out + changed
}
