package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/imagemetadata"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/params"
)

func (a *app) imageMetadataCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image-metadata",
		Short: "Say which images machines are started from",
		Long: `Say which images machines of the model are started from, where its provider has
images to choose from. The one with the highest priority is taken.`,
		Example: `  slipway image-metadata add ami-123 --base ubuntu@22.04 --arch amd64
  slipway image-metadata list`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.addImageCommand(), a.listImagesCommand(), a.deleteImageCommand())
	return cmd
}

func (a *app) addImageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "add ID", Short: "Add an image, in place of one like it",
		Example: `  slipway image-metadata add ami-123 --base ubuntu@22.04 --arch amd64 --region r1`,
		Args:    takes(1, 1),
	}
	var m params.CloudImageMetadata
	system := cmd.Flags().String("base", "", "operating system, such as ubuntu@22.04; required")
	cmd.Flags().StringVar(&m.Arch, "arch", "amd64", "architecture")
	cmd.Flags().StringVar(&m.Stream, "stream", "", `stream; without it "released"`)
	cmd.Flags().StringVar(&m.Region, "region", "", "region; without it any")
	cmd.Flags().StringVar(&m.VirtType, "virt-type", "", "kind of virtual machine")
	cmd.Flags().StringVar(&m.RootStorageType, "storage-type", "", "kind of storage for the root disk")
	cmd.Flags().IntVar(&m.Priority, "priority", 0, "the highest is taken; 0 means 50")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if *system == "" {
			return usagef("add needs --base, such as --base %s", base.Default())
		}
		b, err := base.Parse(*system)
		if err != nil {
			return usagef("%v", err)
		}
		if m.Series, err = b.Series(); err != nil {
			return usagef("%v", err)
		}
		m.ImageID = args[0]
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := imagemetadata.New(conn).Save(ctx, m); err != nil {
			return saying(err, "cannot add image %q", m.ImageID)
		}
		fmt.Fprintf(a.stdout, "added image %s\n", m.ImageID)
		return nil
	})
	return cmd
}

func (a *app) listImagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "Show the images, the one that is taken last",
		Example: `  slipway image-metadata list --format json`,
		Args:    takes(0, 0),
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		images, err := imagemetadata.New(conn).List(ctx, params.ImageMetadataFilter{})
		if err != nil {
			return saying(err, "cannot list images")
		}
		table := [][]string{{"Image", "Series", "Arch", "Stream", "Region", "Source", "Priority"}}
		for _, m := range images {
			table = append(table, []string{m.ImageID, m.Series, m.Arch, m.Stream, m.Region, m.Source, strconv.Itoa(m.Priority)})
		}
		return show(a.stdout, *f, map[string]any{"images": images}, func(w io.Writer) { rows(w, table) })
	})
	return cmd
}

func (a *app) deleteImageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete what is known of an image",
		Example: `  slipway image-metadata delete ami-123`,
		Args:    takes(1, 1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := imagemetadata.New(conn).Delete(ctx, args[0]); err != nil {
			return saying(err, "cannot delete image %q", args[0])
		}
		fmt.Fprintf(a.stdout, "deleted image %s\n", args[0])
		return nil
	})
	return cmd
}
