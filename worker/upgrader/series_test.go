package upgrader

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// namer is a connection to a controller that tells a machine's series, and is asked nothing
// else.
type namer struct {
	t      *testing.T
	series string
}

func (n namer) Addrs() []string { return nil }

func (n namer) Call(_ context.Context, r rpc.Request, _, result any) error {
	out, ok := result.(*params.StringResults)
	if !ok || r.Method != "Series" {
		n.t.Errorf("%s.%s is called", r.Type, r.Method)
		return errors.New("refused")
	}
	out.Results = []params.StringResult{{Result: n.series}}
	return nil
}

// A series names folders that the agent makes and removes, and whoever may add machines
// chooses it.
func TestASeriesIsNoPath(t *testing.T) {
	for _, series := range []string{"../../../../tmp/x", "..", "a/b", "", "jammy-", "x\n"} {
		u := &Upgrader{}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		told := make(chan string, 1)
		ended := make(chan error, 1)
		go func() { ended <- u.Serve(ctx, namer{t, series}, "0", func(text string) { told <- text }) }()
		select {
		case text := <-told:
			if !strings.HasPrefix(text, "the agent cannot upgrade itself on a machine of series ") || strings.Contains(text, "\n") {
				t.Errorf("told %q", text)
			}
		case err := <-ended:
			t.Errorf("Serve for series %q = %v, want it to stay", series, err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve for series %q = %v", series, err)
		}
	}
}
