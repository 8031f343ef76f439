package main

import (
	"encoding/json"
	"os"
	"strconv"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
)

// special is how one virtual machine differs from the others.
type special struct {
	DiskDevice string   `json:"disk-device"` // QEMU's device of its disk, for instance nvme
	SecureBoot bool     `json:"secure-boot"`
	Vars       string   `json:"vars"` // template of its NVRAM, with the keys of Secure Boot
	Port       string   `json:"port"` // network that its port is on, which args define
	Args       []string `json:"args"` // further arguments of QEMU
}

// apply puts what is special into a machine's options.
func (x special) apply(o *fakebmc.QEMUOptions) {
	o.DiskDevice, o.SecureBoot, o.Vars, o.Port, o.Args = x.DiskDevice, x.SecureBoot, x.Vars, x.Port, x.Args
}

// readSpecials reads which of n machines are special: an object of JSON by their
// numbers, from 0. An error satisfies errors.NotValid for a file that says what there is not.
func readSpecials(file string, n int) (map[int]special, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read --machines")
	}
	defer func() { _ = f.Close() }() // only read
	var named map[string]special
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&named); err != nil {
		return nil, errors.NewNotValid(err, "--machines "+file)
	}
	all := make(map[int]special, len(named))
	for name, x := range named {
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= n {
			return nil, errors.NotValidf("machine %q in --machines (there are 0 to %d)", name, n-1)
		}
		all[i] = x
	}
	return all, nil
}
