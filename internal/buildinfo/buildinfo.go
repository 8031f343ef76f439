// Package buildinfo tells which build of Slipway this is.
package buildinfo

import "runtime/debug"

// Version is the version of this build, three numbers parted by dots. Agents,
// servers and commands all have the same.
const Version = "0.1.0"

// Revision returns the revision that was built, shortened, with "+" behind it if
// files had been changed; empty if that is not known.
func Revision() string {
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
