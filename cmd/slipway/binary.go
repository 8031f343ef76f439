package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/core/binaries"
)

func (a *app) uploadAgentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upload-agent FILE --version VERSION",
		Short: "Give the controller an agent binary for machines",
		Long: `Give the controller an agent binary, which machines then download. You must be a
superuser of the controller. A version can be uploaded once; the same file again is fine.

The file is a gzip'd archive with the program provisionerd at its root, as "make dist"
builds it.`,
		Example: `  slipway upload-agent slipway-agent-2.0.0-linux-amd64.tar.gz --version 2.0.0-jammy-amd64`,
		Args:    takes(1, 1),
	}
	text := cmd.Flags().String("version", "", "such as 2.0.0-jammy-amd64; required")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		version, err := binaries.Parse(*text)
		if err != nil {
			return usagef("--version %q is not the version of an agent binary: use a form such as 2.0.0-jammy-amd64", *text)
		}
		file, err := os.Open(args[0])
		if err != nil {
			return errors.Annotate(err, "cannot read the agent binary")
		}
		defer file.Close() // it was read only
		if err := checkPackage(file); err != nil {
			return errors.Annotatef(err, "%s is no package with an agent", args[0])
		}
		sum := sha256.New()
		_, err = file.Seek(0, io.SeekStart)
		if err != nil {
			return errors.Annotate(err, "cannot read the agent binary")
		}
		size, err := io.Copy(sum, file)
		if err == nil {
			_, err = file.Seek(0, io.SeekStart)
		}
		if err != nil {
			return errors.Annotate(err, "cannot read the agent binary")
		}
		s, err := a.site()
		if err != nil {
			return err
		}
		kept, err := api.UploadBinary(ctx, a.info(s, ""), api.Upload{
			Version: version.String(), Content: file, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil)),
		})
		if err != nil {
			return saying(err, "cannot upload agent binary %s", version)
		}
		fmt.Fprintf(a.stdout, "uploaded agent binary %s: %d bytes, SHA-256 %s\n", kept.Version, kept.Size, kept.SHA256)
		return nil
	})
	return cmd
}

// agentProgram is the program that a package for machines has at its root.
const agentProgram = "provisionerd"

// checkPackage returns an error unless a file is what machines can unpack: what
// was uploaded once under a version can never be replaced.
func checkPackage(file io.Reader) error {
	zipped, err := gzip.NewReader(file)
	if err != nil {
		return errors.Errorf("it is no gzip'd archive; \"make dist\" builds slipway-agent-*.tar.gz")
	}
	for members := tar.NewReader(zipped); ; {
		h, err := members.Next()
		if err != nil {
			return errors.Errorf("it has no program %s at its root; \"make dist\" builds slipway-agent-*.tar.gz", agentProgram)
		}
		if strings.TrimPrefix(h.Name, "./") == agentProgram && h.Typeflag == tar.TypeReg {
			return nil
		}
	}
}

func (a *app) upgradeAgentsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade-agents --version VERSION",
		Short: "Have the agents of the model's machines run another version",
		Long: `Have the agents of the model's machines run another version, of which a binary has
been uploaded. Each agent fetches it, tries it, and goes on with it; one for which
it does not work stays with what it had, and its machine's status says why.

An agent that is newer stays as it is, unless --allow-downgrade is given.`,
		Example: `  slipway upgrade-agents --version 2.0.1
  slipway upgrade-agents --version 2.0.0 --allow-downgrade`,
		Args: takes(0, 0),
	}
	text := cmd.Flags().String("version", "", "such as 2.0.1; required")
	downgrade := cmd.Flags().Bool("allow-downgrade", false, "have newer agents go back to this version")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		version, err := binaries.ParseNumber(*text)
		if err != nil {
			return usagef("--version %q is not a version of agents: use a form such as 2.0.1", *text)
		}
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := client.New(conn).SetModelAgentVersion(ctx, version.String(), *downgrade); err != nil {
			return saying(err, "cannot upgrade agents")
		}
		fmt.Fprintf(a.stdout, "agents are to run %s\n", version)
		return nil
	})
	return cmd
}
