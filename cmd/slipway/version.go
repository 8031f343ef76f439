package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/buildinfo"
)

// versionView says which build this is.
type versionView struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // empty if unknown
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show which version this is",
		Example: `  slipway version
  slipway version --format json`,
		Args: takes(0, 0),
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(context.Context, []string) error {
		v := versionView{buildinfo.Version, buildinfo.Revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		return show(a.stdout, *f, v, func(w io.Writer) {
			fmt.Fprintln(w, strings.Join(strings.Fields("slipway "+v.Version+" "+v.Revision+" "+v.Platform), " "))
		})
	})
	return cmd
}
