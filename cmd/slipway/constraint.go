package main

import (
	"strings"

	"github.com/slipway-project/slipway/core/arch"
	"github.com/slipway-project/slipway/core/constraints"
)

// constraintForms says how the value of each constraint is written.
func constraintForms() map[string]string {
	return map[string]string{
		"arch":          "arch=ARCH with one of " + strings.Join(arch.All(), ", "),
		"container":     "container=lxd, container=kvm or container=none",
		"cores":         "cores=N with a whole number, such as cores=4",
		"cpu-cores":     "cores=N with a whole number, such as cores=4",
		"cpu-power":     "cpu-power=N with a whole number, such as cpu-power=100",
		"mem":           "mem=SIZE with M, G, T or P behind the number, such as mem=4G",
		"root-disk":     "root-disk=SIZE with M, G, T or P behind the number, such as root-disk=20G",
		"tags":          "tags=TAG,... such as tags=ssd,^slow",
		"instance-type": "instance-type=NAME",
		"spaces":        "spaces=NAME,... in lower-case letters, digits and hyphens, such as spaces=db,^public",
		"virt-type":     "virt-type=NAME",
	}
}

// constraintHint says how the first of the constraints that is wrong would be
// right.
func constraintHint(texts []string) string {
	forms, seen := constraintForms(), make(map[string]bool)
	for _, pair := range strings.Fields(strings.Join(texts, " ")) {
		key, _, isPair := strings.Cut(pair, "=")
		form, known := forms[key]
		_, err := constraints.Parse(pair)
		switch {
		case !isPair || key == "":
			return "write KEY=VALUE, such as mem=4G"
		case !known:
			return "the keys are " + strings.Join(constraints.Names(), ", ")
		case err != nil:
			return "write " + form
		case seen[key]:
			return "write it once: " + form
		}
		seen[key] = true
	}
	return "write each key once, as KEY=VALUE" // such as cores and its other name
}
