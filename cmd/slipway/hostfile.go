package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/hosts"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
)

func (a *app) importHostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import-hosts FILE",
		Short: "Add the bare-metal hosts of a file",
		Long: `Add the hosts that a file describes, in YAML documents of the kinds BareMetalHost
and Secret, as other tools of this field write them. Hosts that are there already are
told, and the others added.`,
		Example: `  slipway import-hosts rack1.yaml`,
		Args:    takes(1, 1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			list, err := a.hostsFrom(args[0])
			if err != nil {
				return err
			}
			return a.withHosts(ctx, func(c *hosts.Client, _ *api.Conn, _ site) error {
				results, err := c.Add(ctx, list...)
				if err != nil {
					return saying(err, "cannot add the hosts")
				}
				failed := 0
				for i, r := range results {
					if r.Err != nil {
						failed++
						fmt.Fprintf(a.stderr, "host %s is not added: %v\n", list[i].Name, r.Err)
					}
				}
				fmt.Fprintf(a.stdout, "added %d of %d hosts\n", len(results)-failed, len(results))
				if failed > 0 {
					return errors.Errorf("%d of %d hosts are not added", failed, len(results))
				}
				return nil
			})
		}),
	}
}

// hostsFrom reads a file with hosts and their secrets.
func (a *app) hostsFrom(file string) ([]params.AddHost, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read hosts")
	}
	defer f.Close() // only read
	docs, err := metal3v1alpha1.Decode(f)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot read hosts from %s", file)
	}
	for _, w := range docs.Warnings {
		fmt.Fprintf(a.stderr, "warning: %s: %s\n", file, w)
	}
	if len(docs.Hosts) == 0 {
		return nil, errors.Errorf("%s describes no hosts: give documents of kind %s", file, metal3v1alpha1.Kind)
	}
	var list []params.AddHost
	for _, h := range docs.Hosts {
		p := params.AddHost{Name: h.Metadata.Name, Labels: h.Metadata.Labels, Annotations: h.Metadata.Annotations}
		if p.Spec, err = json.Marshal(h.Spec); err != nil {
			return nil, errors.Trace(err)
		}
		if name := h.Spec.BMC.CredentialsName; name != "" {
			secret, ok := docs.SecretFor(h.Metadata.Namespace, name)
			username, hasName := secret.Value("username")
			password, hasPassword := secret.Value("password")
			if !ok || !hasName || !hasPassword {
				return nil, errors.Errorf("%s: host %s names the secret %s, which is not in the file or lacks username or password", file, p.Name, name)
			}
			p.Credentials = params.HostCredentials{Username: params.Secret(username), Password: params.Secret(password)}
		}
		list = append(list, p)
	}
	return list, nil
}

func (a *app) exportHostsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export-hosts",
		Short: "Write the bare-metal hosts as documents that can be imported",
		Long: `Write the hosts as YAML documents of the kind BareMetalHost. Credentials are not
among them: nobody gets them out of a controller.`,
		Example: `  slipway export-hosts > hosts.yaml`,
		Args:    takes(0, 0),
		RunE: a.do(func(ctx context.Context, _ []string) error {
			return a.withHosts(ctx, func(c *hosts.Client, _ *api.Conn, _ site) error {
				views, err := listHosts(ctx, c)
				if err != nil {
					return err
				}
				var docs metal3v1alpha1.Documents
				for _, v := range views {
					docs.Hosts = append(docs.Hosts, &v.Host)
				}
				return metal3v1alpha1.Encode(a.stdout, &docs)
			})
		}),
	}
}
