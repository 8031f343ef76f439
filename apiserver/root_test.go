// The root is not exported; a server shows what it does only with the facades
// of the table.
package apiserver

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// counted is a facade that knows which of its kind it is.
type counted struct{ n int64 }

// Number tells which of its kind the facade is.
func (c *counted) Number() (params.StringResult, error) {
	return params.StringResult{Result: string(rune('0' + c.n))}, nil
}

// Take needs parameters of a shape.
func (c *counted) Take(params.Entities) error { return nil }

func newTestRoot(t *testing.T, table ...row) *root {
	t.Helper()
	r, err := newRegistry(table, []effectsRow{{"C", reads, "Number Take"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &connection{server: &Server{registry: r}, scope: onModel}
	resources := common.NewResources()
	t.Cleanup(resources.StopAll)
	return newRoot(c, caller{tag: tag.NewMachineTag("0")}, resources)
}

// Cases: server/FacadeCaching
func TestFacadeIsMadeOnceForAConnectionAndVersion(t *testing.T) {
	var made atomic.Int64
	make := of(func(*state.State, common.Connection) (*counted, error) { return &counted{made.Add(1)}, nil })
	r := newTestRoot(t,
		row{name: "C", version: 1, scope: onModel, who: anyone, make: make},
		row{name: "C", version: 2, scope: onModel, who: anyone, make: make})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := r.Call(t.Context(), rpc.Request{Type: "C", Version: 1, Method: "Number"}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("50 calls made %d facades, want 1", n)
	}
	if _, err := r.Call(t.Context(), rpc.Request{Type: "C", Version: 2, Method: "Number"}, nil); err != nil || made.Load() != 2 {
		t.Errorf("another version: %v, %d facades, want one of its own", err, made.Load())
	}
}

// Cases: server/ConstructorErrors
func TestFailedConstructorIsTriedAgain(t *testing.T) {
	tries := 0
	r := newTestRoot(t, row{name: "C", version: 1, scope: onModel, who: anyone,
		make: of(func(*state.State, common.Connection) (*counted, error) {
			if tries++; tries == 1 {
				return nil, errors.NotFoundf("provider")
			}
			return &counted{}, nil
		})})
	q := rpc.Request{Type: "C", Version: 1, Method: "Number"}
	_, err := r.Call(t.Context(), q, nil)
	var failed *rpc.Error
	if !errors.As(err, &failed) || failed.Code != params.CodeNotFound {
		t.Errorf("call of a facade that cannot be made = %v, want the constructor's error", err)
	}
	if _, err := r.Call(t.Context(), q, nil); err != nil {
		t.Errorf("second call = %v, want it tried again", err)
	}
}

// Cases: server/BadBody server/UnknownObject
func TestParametersAreReadBeforeRightsAreAsked(t *testing.T) {
	made := false
	r := newTestRoot(t, row{name: "C", version: 1, scope: onModel, who: people,
		make: of(func(*state.State, common.Connection) (*counted, error) { made = true; return &counted{}, nil })})
	q := rpc.Request{Type: "C", Version: 1, Method: "Take"}
	if _, err := r.Call(t.Context(), q, []byte(`{"entities":7}`)); err == nil || wire(err).(*rpc.Error).Code != "" {
		t.Errorf("bad parameters = %v, want the decoder's error, without a code", err)
	}
	if _, err := r.Call(t.Context(), q, nil); err == nil || err.Error() != "permission denied" || made {
		t.Errorf("good parameters = %v, made %v, want it denied and nothing made", err, made)
	}
	if _, err := r.Call(t.Context(), rpc.Request{Type: "C", Version: 1, Method: "Take", ID: "7"}, nil); err == nil || err.Error() != "permission denied" {
		t.Errorf("an object of a facade that is denied = %v", err)
	}
}
