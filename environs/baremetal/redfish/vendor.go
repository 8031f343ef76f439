package redfish

import "strings"

// vendor is how one maker's BMC wants to be spoken to. The zero value is the
// plain way.
type vendor struct {
	// match is a part of the manufacturer's or the product's name, in lower case.
	match string
	// imageOnly sends InsertMedia nothing but the image.
	imageOnly bool
	// ejectFirst takes an old medium out before the new one goes in.
	ejectFirst bool
	// ifMatch sends the resource's ETag with every PATCH.
	ifMatch bool
	// noMode leaves the boot mode alone: it is a BIOS setting there.
	noMode bool
}

// vendors returns the table of differences, as documented in the makers' Redfish
// guides; the first row that matches counts.
func vendors() []vendor {
	return []vendor{
		{match: "dell", ejectFirst: true},
		{match: "hpe", imageOnly: true, noMode: true},
		{match: "lenovo", ifMatch: true},
		{match: "supermicro", ejectFirst: true},
	}
}

// vendorOf returns the row for a system made by manufacturer.
func vendorOf(manufacturer string) vendor {
	name := strings.ToLower(manufacturer)
	for _, v := range vendors() {
		if strings.Contains(name, v.match) {
			return v
		}
	}
	return vendor{}
}
