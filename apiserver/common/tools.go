package common

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Binary is an agent binary that the site keeps.
type Binary struct {
	Version binaries.Version
	SHA256  string
	Size    int64 // bytes
}

// Binaries is what ToolsFinder needs from below.
type Binaries interface {
	// Binaries returns every agent binary that the site keeps.
	Binaries(ctx context.Context) ([]Binary, error)
	// APIHostPorts returns, for each API server, where it can be reached.
	APIHostPorts(ctx context.Context) ([][]network.HostPort, error)
	// ModelUUID returns the UUID of the connection's model.
	ModelUUID() string
}

// ToolsFinder gives a facade the method FindTools.
type ToolsFinder struct{ below Binaries }

// NewToolsFinder returns a ToolsFinder for the binaries that below knows.
func NewToolsFinder(below Binaries) *ToolsFinder { return &ToolsFinder{below} }

// FindTools returns the agent binaries that fit, each once for each address
// where it can be had.
func (f *ToolsFinder) FindTools(ctx context.Context, args params.FindToolsParams) (params.FindToolsResult, error) {
	list, err := f.find(ctx, args)
	if err != nil {
		return params.FindToolsResult{Error: ServerError(err)}, nil
	}
	return params.FindToolsResult{List: list}, nil
}

func (f *ToolsFinder) find(ctx context.Context, args params.FindToolsParams) ([]params.Tools, error) {
	var number binaries.Number
	if args.Number != "" {
		n, err := binaries.ParseNumber(args.Number)
		if err != nil {
			return nil, errors.Trace(err)
		}
		number = n
	}
	all, err := f.below.Binaries(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	fits := slices.DeleteFunc(slices.Clone(all), func(b Binary) bool {
		v := b.Version
		return !number.IsZero() && v.Number != number ||
			args.Major > 0 && v.Major != args.Major || args.Major > 0 && args.Minor >= 0 && v.Minor != args.Minor ||
			args.Arch != "" && v.Arch != args.Arch || args.Series != "" && v.Series != args.Series
	})
	if len(fits) == 0 {
		return nil, errors.NotFoundf("tools")
	}
	slices.SortFunc(fits, func(a, b Binary) int {
		if c := a.Version.Number.Compare(b.Version.Number); c != 0 {
			return c
		}
		return compareText(a.Version.String(), b.Version.String())
	})
	return f.located(ctx, fits)
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// located returns the binaries with where they can be had.
func (f *ToolsFinder) located(ctx context.Context, found []Binary) ([]params.Tools, error) {
	servers, err := f.below.APIHostPorts(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	addrs := InternalAddresses(servers)
	if len(addrs) == 0 {
		return nil, errors.New("no suitable API server address to pick from")
	}
	list := make([]params.Tools, 0, len(found)*len(addrs))
	for _, b := range found {
		for _, addr := range addrs {
			version := b.Version.String()
			url := "https://" + addr + "/model/" + f.below.ModelUUID() + "/tools/" + version
			list = append(list, params.Tools{Version: version, URL: url, SHA256: b.SHA256, Size: b.Size})
		}
	}
	return list, nil
}

// AgentVersioner is what ToolsGetter needs of an entity.
type AgentVersioner interface {
	Tag() tag.Tag
	// AgentVersion returns what the agent reported to run, as
	// number-series-arch; empty if it has not.
	AgentVersion() string
}

// ToolsGetter gives a facade the method Tools.
type ToolsGetter struct {
	bulk    Bulk[AgentVersioner]
	desired func(ctx context.Context) (string, error)
	finder  *ToolsFinder
}

// NewToolsGetter returns a ToolsGetter for the entities that canRead allows.
// Desired returns the version that the model's agents should run, empty if none
// is set.
func NewToolsGetter(get EntityGetter[AgentVersioner], desired func(ctx context.Context) (string, error), finder *ToolsFinder, canRead GetAuthFunc) *ToolsGetter {
	return &ToolsGetter{Bulk[AgentVersioner]{Get: get, Can: canRead}, desired, finder}
}

// Tools returns what each agent should run, and where to get it.
func (g *ToolsGetter) Tools(ctx context.Context, args params.Entities) (params.ToolsResults, error) {
	results := make([]params.ToolsResult, len(args.Entities))
	var number string // looked up when the first entity needs it
	var failed error  // to look it up, which fails the whole call
	err := g.bulk.Do(ctx, len(results), tagOf(args), func(i int, e AgentVersioner) error {
		if number == "" && failed == nil {
			number, failed = g.number(ctx)
		}
		if failed != nil {
			return failed
		}
		list, err := g.tools(ctx, e, number)
		results[i].Tools, results[i].DisableSSLHostnameVerification = list, err == nil
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	if err == nil {
		err = failed
	}
	if err != nil {
		return params.ToolsResults{}, errors.Trace(err)
	}
	return params.ToolsResults{Results: results}, nil
}

// errNoVersion says that nobody has said which version agents should run.
var errNoVersion = errors.New("agent version not set in model config")

// number returns the version that the model's agents should run.
func (g *ToolsGetter) number(ctx context.Context) (string, error) {
	number, err := g.desired(ctx)
	if err == nil && number == "" {
		err = errNoVersion
	}
	return number, err
}

// tools returns what one agent should run.
func (g *ToolsGetter) tools(ctx context.Context, e AgentVersioner, number string) ([]params.Tools, error) {
	if e.AgentVersion() == "" {
		return nil, errors.NotFoundf("agent tools for %s %s", e.Tag().Kind(), e.Tag().Id())
	}
	running, err := binaries.Parse(e.AgentVersion())
	if err != nil {
		return nil, errors.Trace(err)
	}
	return g.finder.find(ctx, params.FindToolsParams{
		Number: number, Major: -1, Minor: -1, Series: running.Series, Arch: running.Arch,
	})
}
