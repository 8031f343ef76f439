package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/networks"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

func (a *app) addSpaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-space NAME [SUBNET...]",
		Short: "Add a space to the model, with subnets that are there already",
		Long: `Add a space to the model: a set of subnets. Machines ask to be in one with the
constraint spaces=NAME.`,
		Example: `  slipway add-space db
  slipway add-space dmz 10.0.9.0/24 --public`,
		Args: takes(1, -1),
	}
	public := cmd.Flags().Bool("public", false, "it can be reached from outside")
	provider := cmd.Flags().String("provider-id", "", "what the provider calls it")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if err := network.CheckSpaceName(args[0]); err != nil {
			return usagef("%v", err)
		}
		space := params.CreateSpace{SpaceTag: tag.SpaceTag(args[0]), SubnetTags: []string{}, Public: *public, ProviderID: *provider}
		for _, cidr := range args[1:] {
			if _, err := network.ParseCIDR(cidr); err != nil {
				return usagef("%v", err)
			}
			space.SubnetTags = append(space.SubnetTags, tag.SubnetTag(cidr))
		}
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := networks.New(conn).AddSpace(ctx, space); err != nil {
			return saying(err, "cannot add space %q", args[0])
		}
		fmt.Fprintf(a.stdout, "added space %s\n", args[0])
		return nil
	})
	return cmd
}

func (a *app) addSubnetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-subnet CIDR SPACE",
		Short: "Add a subnet to a space",
		Long: `Add a subnet to a space of the model. Machines that ask for the space are
started in the first --zone, if the subnet has a --provider-id.

Containers are given addresses from --low to --high, if the site has the feature
address-allocation (see "slipway controller-config").`,
		Example: `  slipway add-subnet 10.0.0.0/24 db --zone z1 --provider-id subnet-7
  slipway add-subnet 10.0.1.0/24 db --low 10.0.1.100 --high 10.0.1.199`,
		Args: takes(2, 2),
	}
	var s params.AddSubnet
	cmd.Flags().StringSliceVar(&s.Zones, "zone", nil, "zone in which it exists; may be repeated")
	cmd.Flags().StringVar(&s.SubnetProviderID, "provider-id", "", "what the provider calls it")
	cmd.Flags().IntVar(&s.VLANTag, "vlan", 0, "its VLAN tag")
	cmd.Flags().StringVar(&s.Low, "low", "", "first address for containers")
	cmd.Flags().StringVar(&s.High, "high", "", "last address for containers")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		check := network.Subnet{CIDR: args[0], Space: args[1], VLANTag: s.VLANTag, Low: s.Low, High: s.High}
		if err := check.Check(); err != nil {
			return usagef("%v", err)
		}
		s.SubnetTag, s.SpaceTag = tag.SubnetTag(args[0]), tag.SpaceTag(args[1])
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := networks.New(conn).AddSubnet(ctx, s); err != nil {
			return saying(err, "cannot add subnet %q", args[0])
		}
		fmt.Fprintf(a.stdout, "added subnet %s to space %s\n", args[0], args[1])
		return nil
	})
	return cmd
}

// subnetView is a subnet as people see it.
type subnetView struct {
	CIDR       string   `json:"cidr"`
	Space      string   `json:"space"`
	ProviderID string   `json:"provider-id,omitempty"`
	VLANTag    int      `json:"vlan-tag,omitempty"`
	Zones      []string `json:"zones"`
	Low        string   `json:"low,omitempty"`
	High       string   `json:"high,omitempty"`
}

func viewSubnet(s params.Subnet) subnetView {
	space, _ := strings.CutPrefix(s.SpaceTag, "space-")
	return subnetView{CIDR: s.CIDR, Space: space, ProviderID: s.ProviderID, VLANTag: s.VLANTag, Zones: s.Zones, Low: s.Low, High: s.High}
}

// spaceView is a space as people see it.
type spaceView struct {
	Name    string       `json:"name"`
	Subnets []subnetView `json:"subnets"`
}

func (a *app) spacesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "spaces", Short: "Show the spaces of the model", Aliases: []string{"list-spaces"},
		Example: `  slipway spaces
  slipway spaces --format yaml`,
		Args: takes(0, 0),
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		spaces, err := networks.New(conn).Spaces(ctx)
		if err != nil {
			return saying(err, "cannot list spaces")
		}
		view := make([]spaceView, len(spaces))
		table := [][]string{{"Space", "Subnets"}}
		for i, s := range spaces {
			view[i] = spaceView{Name: s.Name, Subnets: []subnetView{}}
			var cidrs []string
			for _, n := range s.Subnets {
				view[i].Subnets = append(view[i].Subnets, viewSubnet(n))
				cidrs = append(cidrs, n.CIDR)
			}
			table = append(table, []string{s.Name, strings.Join(cidrs, " ")})
		}
		return show(a.stdout, *f, map[string]any{"spaces": view}, func(w io.Writer) { rows(w, table) })
	})
	return cmd
}

func (a *app) subnetsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "subnets", Short: "Show the subnets of the model", Aliases: []string{"list-subnets"},
		Example: `  slipway subnets
  slipway subnets --space db --format json`,
		Args: takes(0, 0),
	}
	space := cmd.Flags().String("space", "", "only those of a space")
	zone := cmd.Flags().String("zone", "", "only those in a zone")
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		found, err := networks.New(conn).Subnets(ctx, params.SubnetsFilters{SpaceTag: tag.SpaceTag(*space), Zone: *zone})
		if err != nil {
			return saying(err, "cannot list subnets")
		}
		view := make([]subnetView, len(found))
		table := [][]string{{"Subnet", "Space", "Provider id", "VLAN", "Zones", "For containers"}}
		for i, s := range found {
			v := viewSubnet(s)
			view[i] = v
			vlan, spare := "", ""
			if v.VLANTag != 0 {
				vlan = strconv.Itoa(v.VLANTag)
			}
			if v.Low != "" {
				spare = v.Low + " to " + v.High
			}
			table = append(table, []string{v.CIDR, v.Space, v.ProviderID, vlan, strings.Join(v.Zones, ","), spare})
		}
		return show(a.stdout, *f, map[string]any{"subnets": view}, func(w io.Writer) { rows(w, table) })
	})
	return cmd
}
