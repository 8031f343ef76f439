package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/params"
)

// SetModelAgentVersion says which version the model's agents are to run: each
// fetches it, tries it, and goes on with it or with what it had. It returns an
// error satisfying errors.NotFound if the site keeps no binary of that version,
// and errors.NotValid for one that is older than the version before, unless
// going back is asked for.
func (c *Client) SetModelAgentVersion(ctx context.Context, args params.SetModelAgentVersion) error {
	if err := c.canWrite(); err != nil {
		return err
	}
	number, err := binaries.ParseNumber(args.Version)
	if err != nil {
		return errors.NewNotValid(nil, fmt.Sprintf("%q is not a version of agents: use a form such as 2.0.1", args.Version))
	}
	settings, err := c.backend.Settings(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	if now, ok := settings.AgentVersion(); ok && number.Compare(now) < 0 && !args.AllowDowngrade {
		return errors.NewNotValid(nil, fmt.Sprintf("version %s is older than %s, which agents are to run now: going back has to be asked for", number, now))
	}
	if err := c.keepsBinary(ctx, number); err != nil {
		return err
	}
	return errors.Trace(c.backend.SetAgentVersion(ctx, number.String(), args.AllowDowngrade))
}

// keepsBinary returns an error satisfying errors.NotFound if no agent binary of
// a version is there, which says which are.
func (c *Client) keepsBinary(ctx context.Context, number binaries.Number) error {
	kept, err := c.backend.Binaries(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	var numbers []string
	for _, b := range kept {
		if b.Version.Number == number {
			return nil
		}
		if n := b.Version.Number.String(); !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	there := "there are none"
	if len(numbers) > 0 {
		there = "there are " + strings.Join(numbers, ", ")
	}
	return errors.NewNotFound(nil, fmt.Sprintf("no agent binary of version %s has been uploaded: %s", number, there))
}
