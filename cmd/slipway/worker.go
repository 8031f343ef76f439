package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/modelworkers"
	"github.com/slipway-project/slipway/params"
)

var workerName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,62}[a-zA-Z0-9])?$`)

func (a *app) addWorkerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-worker NAME --out FILE",
		Short: "Make an identity for a provisioner on another machine",
		Long: `Make an identity for a provisioner that runs on another machine, and write the
agent file with which it logs in. The file holds a secret that is told this once.`,
		Example: `  slipway add-worker rack-2 --out rack-2.yaml
  provisionerd model --agent-file rack-2.yaml`,
		Args: takes(1, 1),
	}
	out := cmd.Flags().String("out", "", "file to write, which must not exist yet")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		switch {
		case !workerName.MatchString(args[0]):
			return usagef("%q is not a worker name: use letters, digits and hyphens", args[0])
		case *out == "":
			return usagef("add-worker needs --out FILE to write the identity to")
		}
		if err := checkOut(*out); err != nil {
			return err
		}
		conn, err := a.openWorkers(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		identity, err := modelworkers.New(conn).Add(ctx, args[0])
		if err != nil {
			return saying(err, "cannot add worker %q", args[0])
		}
		if err := agentfile.Write(*out, fileOf(identity, conn)); err != nil {
			return errors.Annotatef(err, "worker %q is added, but its file is not written: remove it and try again", args[0])
		}
		fmt.Fprintf(a.stdout, "added worker %s: its agent file is %s\n", args[0], *out)
		return nil
	})
	return cmd
}

// checkOut finds out early whether a new file can be written.
func checkOut(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return errors.NewAlreadyExists(nil, fmt.Sprintf("%s is there already: name a new file, or move it away", path))
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return errors.Annotatef(err, "cannot write %s", path)
	}
	if !info.IsDir() {
		return errors.Errorf("cannot write %s: %s is not a folder", path, filepath.Dir(path))
	}
	return nil
}

// fileOf returns the agent file of an identity.
func fileOf(w params.WorkerIdentity, conn *api.Conn) agentfile.File {
	return agentfile.File{Tag: w.Tag, Password: string(w.Password), Nonce: w.Nonce, ModelUUID: w.ModelUUID,
		APIAddresses: conn.Addrs(), CACert: conn.CACert()}
}

// openWorkers connects to where workers' identities are kept: the controller.
func (a *app) openWorkers(ctx context.Context) (*api.Conn, error) {
	conn, _, err := a.openController(ctx)
	return conn, err
}

func (a *app) removeWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove-worker NAME",
		Short:   "Revoke the identity of a provisioner",
		Example: `  slipway remove-worker rack-2`,
		Args:    takes(1, 1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			conn, err := a.openWorkers(ctx)
			if err != nil {
				return err
			}
			defer conn.Close() // nothing is under way
			if err := modelworkers.New(conn).Remove(ctx, args[0]); err != nil {
				return saying(err, "cannot remove worker %q", args[0])
			}
			fmt.Fprintf(a.stdout, "removed worker %s\n", args[0])
			return nil
		}),
	}
}
