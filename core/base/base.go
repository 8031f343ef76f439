// Package base names operating systems: as a base, such as "ubuntu@22.04", and
// as a series, the code name "jammy" that older clients use for the same thing.
package base

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/juju/errors"
)

// Base is an operating system and a version of it. The zero Base names none.
type Base struct {
	Name    string // "ubuntu"
	Channel string // "22.04"; a trailing "/stable" is never kept
}

// release is one operating system that is known.
type release struct {
	series string
	base   Base
	lts    bool
}

// releases is the table of what is known, each distribution's newest last.
// Sources: the release lists of ubuntu.com, debian.org and centos.org.
var releases = []release{
	{series: "precise", base: Base{"ubuntu", "12.04"}, lts: true},
	{series: "quantal", base: Base{"ubuntu", "12.10"}},
	{series: "raring", base: Base{"ubuntu", "13.04"}},
	{series: "saucy", base: Base{"ubuntu", "13.10"}},
	{series: "trusty", base: Base{"ubuntu", "14.04"}, lts: true},
	{series: "utopic", base: Base{"ubuntu", "14.10"}},
	{series: "vivid", base: Base{"ubuntu", "15.04"}},
	{series: "wily", base: Base{"ubuntu", "15.10"}},
	{series: "xenial", base: Base{"ubuntu", "16.04"}, lts: true},
	{series: "yakkety", base: Base{"ubuntu", "16.10"}},
	{series: "zesty", base: Base{"ubuntu", "17.04"}},
	{series: "artful", base: Base{"ubuntu", "17.10"}},
	{series: "bionic", base: Base{"ubuntu", "18.04"}, lts: true},
	{series: "cosmic", base: Base{"ubuntu", "18.10"}},
	{series: "disco", base: Base{"ubuntu", "19.04"}},
	{series: "eoan", base: Base{"ubuntu", "19.10"}},
	{series: "focal", base: Base{"ubuntu", "20.04"}, lts: true},
	{series: "groovy", base: Base{"ubuntu", "20.10"}},
	{series: "hirsute", base: Base{"ubuntu", "21.04"}},
	{series: "impish", base: Base{"ubuntu", "21.10"}},
	{series: "jammy", base: Base{"ubuntu", "22.04"}, lts: true},
	{series: "kinetic", base: Base{"ubuntu", "22.10"}},
	{series: "lunar", base: Base{"ubuntu", "23.04"}},
	{series: "mantic", base: Base{"ubuntu", "23.10"}},
	{series: "noble", base: Base{"ubuntu", "24.04"}, lts: true},
	{series: "bullseye", base: Base{"debian", "11"}},
	{series: "bookworm", base: Base{"debian", "12"}},
	{series: "trixie", base: Base{"debian", "13"}},
	{series: "centos7", base: Base{"centos", "7"}},
	{series: "centos8", base: Base{"centos", "8"}},
	{series: "centos9", base: Base{"centos", "9"}},
}

// Default returns the base of a machine for which neither the operator nor the
// model names one: the newest Ubuntu with long-term support in the table.
func Default() Base { return newestLTS().base }

// DefaultSeries returns the series of Default.
func DefaultSeries() string { return newestLTS().series }

func newestLTS() release {
	var newest release
	for _, r := range releases {
		if r.lts {
			newest = r
		}
	}
	return newest
}

// Parse reads "name@channel", such as "ubuntu@22.04" or "ubuntu@22.04/stable". It
// returns an error satisfying errors.NotValid if text is malformed or names an
// operating system that is not known.
func Parse(text string) (Base, error) {
	name, channel, found := strings.Cut(text, "@")
	b := Base{Name: name, Channel: strings.TrimSuffix(channel, "/stable")}
	if !found || name == "" || b.Channel == "" {
		return Base{}, errors.NotValidf("base %q (want name@version, such as %s)", text, Default())
	}
	if _, err := b.Series(); err != nil {
		return Base{}, err
	}
	return b, nil
}

// FromSeries returns the base that a series names, or an error satisfying
// errors.NotValid if it is not known.
func FromSeries(series string) (Base, error) {
	i := slices.IndexFunc(releases, func(r release) bool { return r.series == series })
	if i < 0 {
		return Base{}, errors.NotValidf("series %q", series)
	}
	return releases[i].base, nil
}

// Series returns the series that b is also known as, or an error satisfying
// errors.NotValid if b is not known.
func (b Base) Series() (string, error) {
	i := slices.IndexFunc(releases, func(r release) bool { return r.base == b })
	if i < 0 {
		return "", errors.NotValidf("base %q (known are: %s)", b, strings.Join(known(b.Name), ", "))
	}
	return releases[i].series, nil
}

// known returns the bases of one distribution, newest first, or of all if there
// are none. At most the five newest are named.
func known(name string) []string {
	var out []string
	for _, r := range slices.Backward(releases) {
		if r.base.Name == name {
			out = append(out, r.base.String())
		}
	}
	if len(out) == 0 {
		for _, r := range slices.Backward(releases) {
			out = append(out, r.base.String())
		}
	}
	return out[:min(5, len(out))]
}

// IsZero reports whether b names nothing.
func (b Base) IsZero() bool { return b == Base{} }

// String prints b so that Parse reads it back, and the zero Base as "".
func (b Base) String() string {
	if b.IsZero() {
		return ""
	}
	return b.Name + "@" + b.Channel
}

// wire is how a Base travels.
type wire struct {
	Name    string `json:"name"`
	Channel string `json:"channel"`
}

// MarshalJSON writes b as an object with a name and a channel.
func (b Base) MarshalJSON() ([]byte, error) { return json.Marshal(wire(b)) }

// UnmarshalJSON reads what MarshalJSON writes; the channel may end in
// "/stable". Whether the base is known is not looked at.
func (b *Base) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	w.Channel = strings.TrimSuffix(w.Channel, "/stable")
	*b = Base(w)
	return nil
}
