package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/hosts"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
)

// withHosts runs do with a client of the controller's hosts.
func (a *app) withHosts(ctx context.Context, do func(c *hosts.Client, conn *api.Conn, s site) error) error {
	conn, s, err := a.openController(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	return do(hosts.New(conn), conn, s)
}

func (a *app) addHostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-host [NAME] --bmc URL [--mac MAC] --credentials-file FILE",
		Short: "Add a bare-metal host",
		Long: `Add a bare-metal host: a machine that is driven through its management controller
(BMC). It is registered and inspected, and then waits for a machine to become.

The credentials file is YAML with "username" and "password"; - is the standard
input. Without a name the host is called after its MAC address.`,
		Example: `  slipway add-host rack1-u7 --bmc redfish-virtualmedia://10.0.0.7/redfish/v1/Systems/1 --mac 52:54:00:12:34:56 --credentials-file bmc.yaml
  slipway add-host node-1 --bmc simulated://node-1 --credentials-file - --zone z1 --tag ssd,gpu`,
		Args: takes(0, 1),
	}
	var spec metal3v1alpha1.BareMetalHostSpec
	var file, reserve, zone string
	var tags []string
	f := cmd.Flags()
	f.StringVar(&spec.BMC.Address, "bmc", "", "address of the BMC: SCHEME://HOST[:PORT][/PATH] (required)")
	f.StringVar(&spec.BootMACAddress, "mac", "", "MAC address that the host boots from")
	f.StringVar(&file, "credentials-file", "", "file with the BMC's username and password (required)")
	f.StringVar(&zone, "zone", "", "availability zone that the host is in")
	f.StringSliceVar(&tags, "tag", nil, "tags of the host, which machines may ask for, separated by commas")
	f.StringVar(&reserve, "reserve-for", "", "the only model whose machines may get the host")
	f.StringVar(&spec.BMC.CertificateFingerprint, "certificate-fingerprint", "", "SHA-256 of the BMC's certificate, to accept no other")
	f.BoolVar(&spec.BMC.DisableCertificateVerification, "accept-any-certificate", false, "do not check the BMC's certificate")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		host := params.AddHost{Name: strings.Join(args, "")}
		switch {
		case spec.BMC.Address == "":
			return usagef("add-host needs --bmc URL")
		case file == "":
			return usagef("add-host needs --credentials-file FILE with the BMC's username and password")
		}
		for _, name := range []string{"mac", "zone", "tag", "reserve-for", "certificate-fingerprint"} {
			if text := f.Lookup(name).Value.String(); f.Changed(name) && (text == "" || text == "[]") {
				return usagef("--%s is empty: give it a value, or leave it out", name)
			}
		}
		if strings.ContainsAny(zone, ", \t\n") {
			return usagef("%q is no name of a zone: give one word", zone)
		}
		var err error
		if host.Credentials, err = a.credentialsFrom(file); err != nil {
			return err
		}
		spec.Online = true
		if host.Labels, err = hostLabels(zone, tags); err != nil {
			return err
		}
		if host.Spec, err = json.Marshal(spec); err != nil {
			return errors.Trace(err)
		}
		return a.withHosts(ctx, func(c *hosts.Client, conn *api.Conn, s site) error {
			if reserve != "" {
				m, err := a.findModel(ctx, s, reserve)
				if err != nil {
					return err
				}
				host.ReserveFor = m.uuid
			}
			name, err := api.One(c.Add(ctx, host))
			if err != nil {
				return saying(err, "cannot add the host")
			}
			fmt.Fprintf(a.stdout, "added host %s\n", name)
			return nil
		})
	})
	return cmd
}

// zoneLabel is the label of a host that names its zone.
const zoneLabel = "zone"

// hostLabels returns the labels of a host in a zone and with tags.
func hostLabels(zone string, tags []string) (map[string]string, error) {
	labels := make(map[string]string)
	for _, t := range tags {
		if t == "" || t == zoneLabel || strings.ContainsAny(t, "^, \t") {
			return nil, usagef("%q is no tag of a host: give a word other than \"zone\"", t)
		}
		labels[t] = ""
	}
	if zone != "" {
		labels[zoneLabel] = zone
	}
	return labels, nil
}

// credentialsFrom reads a file with a BMC's credentials. No error quotes it.
func (a *app) credentialsFrom(file string) (params.HostCredentials, error) {
	from := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return params.HostCredentials{}, errors.Annotate(err, "cannot read the credentials")
		}
		defer f.Close() // only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxPassword))
	if err != nil {
		return params.HostCredentials{}, errors.Annotate(err, "cannot read the credentials")
	}
	var c struct{ Username, Password string }
	if yaml.Unmarshal(text, &c) != nil || c.Username == "" || c.Password == "" {
		return params.HostCredentials{}, errors.Errorf("%s has no credentials in it: give two lines, \"username: NAME\" and \"password: PASSWORD\"", file)
	}
	return params.HostCredentials{Username: params.Secret(c.Username), Password: params.Secret(c.Password)}, nil
}

func (a *app) removeHostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove-host NAME",
		Short: "Remove a bare-metal host",
		Long: `Remove a bare-metal host: what is on it is removed, and it is forgotten. A host in
use is removed by force only. By force, a BMC that does not answer is waited for
for less than a minute.`,
		Example: `  slipway remove-host rack1-u7
  slipway remove-host rack1-u7 --force`,
		Args: takes(1, 1),
	}
	force := cmd.Flags().Bool("force", false, "whether it is in use, or cannot be reached")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		action := "remove"
		if *force {
			action = "remove-by-force"
		}
		return a.askHost(ctx, args[0], action, "removing host %s\n")
	})
	return cmd
}

// askHost asks something of a host, and says that it was asked.
func (a *app) askHost(ctx context.Context, name, action, done string) error {
	return a.withHosts(ctx, func(c *hosts.Client, _ *api.Conn, _ site) error {
		if err := c.Do(ctx, name, action); err != nil {
			return errors.Trace(err)
		}
		fmt.Fprintf(a.stdout, done, name)
		return nil
	})
}

// hostCommand returns the commands that ask something of a host.
func (a *app) hostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Ask something of a bare-metal host",
		Example: `  slipway host power rack1-u7 off
  slipway host retry rack1-u7`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	choice := func(use, short, example string, choices map[string][2]string) *cobra.Command {
		words := slices.Sorted(func(yield func(string) bool) {
			for w := range choices {
				if !yield(w) {
					return
				}
			}
		})
		c := &cobra.Command{Use: use + " NAME " + strings.Join(words, "|"), Short: short, Example: "  slipway host " + use + " rack1-u7 " + example, Args: takes(2, 2)}
		c.RunE = a.do(func(ctx context.Context, args []string) error {
			chosen, ok := choices[args[1]]
			if !ok {
				return usagef("%q is no choice: use %s", args[1], strings.Join(words, ", "))
			}
			return a.askHost(ctx, args[0], chosen[0], chosen[1])
		})
		return c
	}
	plain := func(use, short, action, done string) *cobra.Command {
		return &cobra.Command{Use: use + " NAME", Short: short, Example: "  slipway host " + use + " rack1-u7", Args: takes(1, 1), RunE: a.do(func(ctx context.Context, args []string) error {
			return a.askHost(ctx, args[0], action, done)
		})}
	}
	cmd.AddCommand(
		choice("power", "Switch a host on or off", "cycle", map[string][2]string{
			"on": {"power-on", "switching host %s on\n"}, "off": {"power-off", "switching host %s off\n"},
			"cycle": {"reboot", "rebooting host %s\n"}, "reset": {"hard-reboot", "rebooting host %s at once\n"},
		}),
		choice("maintenance", "Leave a host alone, or care for it again", "on", map[string][2]string{
			"on": {"maintenance-on", "host %s is left alone\n"}, "off": {"maintenance-off", "host %s is cared for again\n"},
		}),
		plain("inspect", "Find out anew what a host is made of", "inspect", "host %s is to be inspected\n"),
		plain("retry", "Try again at once what failed on a host", "retry", "trying host %s again\n"),
		a.hostCredentialsCommand(),
	)
	return cmd
}

func (a *app) hostCredentialsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "credentials NAME --credentials-file FILE", Short: "Give a host's BMC other credentials",
		Example: "  slipway host credentials rack1-u7 --credentials-file bmc.yaml", Args: takes(1, 1)}
	file := cmd.Flags().String("credentials-file", "", "file with the BMC's username and password (required)")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if *file == "" {
			return usagef("credentials needs --credentials-file FILE with the BMC's username and password")
		}
		creds, err := a.credentialsFrom(*file)
		if err != nil {
			return err
		}
		return a.withHosts(ctx, func(c *hosts.Client, _ *api.Conn, _ site) error {
			if err := c.SetCredentials(ctx, args[0], creds); err != nil {
				return errors.Trace(err)
			}
			fmt.Fprintf(a.stdout, "host %s has other credentials\n", args[0])
			return nil
		})
	})
	return cmd
}
