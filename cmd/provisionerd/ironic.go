package main

import (
	"os"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/pflag"

	"github.com/slipway-project/slipway/environs/baremetal/ironic"
	"github.com/slipway-project/slipway/internal/command"
)

// ironicFlags say how to reach an Ironic. Secrets are in files, which nobody sees
// in a list of processes.
type ironicFlags struct {
	config                     ironic.Config // but for what files hold
	credentials, token, caFile string        // the files
}

// add gives a command the flags.
func (f *ironicFlags) add(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.Endpoint, "ironic", "", "URL of an Ironic that drives bare-metal hosts, such as http://127.0.0.1:6385/v1; empty means that BMCs are spoken to directly")
	flags.StringVar(&f.credentials, "ironic-credentials-file", "", "file whose first line is USER:PASSWORD, for HTTP basic authentication")
	flags.StringVar(&f.token, "ironic-token-file", "", "file with a token that stands for a login, read anew for each request, so that it may be replaced")
	flags.StringVar(&f.caFile, "ironic-ca-file", "", "PEM file of the authorities that Ironic's server is trusted by; empty means those of this machine")
	flags.BoolVar(&c.SkipVerify, "ironic-accept-any-certificate", false, "do not check the certificate of Ironic's server")
	flags.StringVar(&c.DeployKernel, "ironic-deploy-kernel", "", "URL of the kernel of Ironic's agent; empty means that Ironic's own configuration has it")
	flags.StringVar(&c.DeployRamdisk, "ironic-deploy-ramdisk", "", "URL of the ramdisk of Ironic's agent")
	flags.StringVar(&c.DeployISO, "ironic-deploy-iso", "", "URL of a bootable image of Ironic's agent, for virtual media")
	flags.BoolVar(&c.NoCleaning, "ironic-no-cleaning", false, "leave disks as they are between two uses of a host")
	flags.StringToStringVar(&c.Interfaces, "ironic-interface", nil, "interfaces in the place of those that BMC addresses imply, such as deploy=fake,network=noop")
}

// read returns the configuration, with what the files hold.
func (f *ironicFlags) read() (ironic.Config, error) {
	c := f.config
	if c.Endpoint == "" {
		if f.credentials != "" || f.token != "" || f.caFile != "" || c.SkipVerify || c.DeployKernel != "" || c.DeployRamdisk != "" || c.DeployISO != "" || c.NoCleaning || c.Interfaces != nil {
			return c, command.Usagef("a flag --ironic-* without --ironic URL says nothing")
		}
		return c, nil
	}
	if f.credentials != "" && f.token != "" {
		return c, command.Usagef("give --ironic-credentials-file or --ironic-token-file, not both")
	}
	if f.credentials != "" {
		text, err := firstLine(f.credentials)
		if err != nil {
			return c, err
		}
		var ok bool
		if c.Username, c.Password, ok = strings.Cut(text, ":"); !ok || c.Username == "" || c.Password == "" {
			return c, errors.Errorf("the first line of %s is not USER:PASSWORD", f.credentials)
		}
	}
	if f.token != "" {
		if _, err := firstLine(f.token); err != nil {
			return c, err
		}
		c.Token = func() (string, error) { return firstLine(f.token) }
	}
	if f.caFile != "" {
		pem, err := os.ReadFile(f.caFile)
		if err != nil {
			return c, errors.Annotate(err, "cannot read the authorities for Ironic")
		}
		c.CABundle = string(pem)
	}
	if err := c.Validate(); err != nil {
		return c, command.Usagef("%v", err)
	}
	return c, nil
}

// firstLine returns the first line of a file with a secret.
func firstLine(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", errors.Annotate(err, "cannot read the secret for Ironic")
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", errors.Errorf("the first line of %s is empty", path)
	}
	return line, nil
}
