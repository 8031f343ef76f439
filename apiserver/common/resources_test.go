package common_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
)

// fakeResource notes when it is stopped.
type fakeResource struct {
	name string
	log  *[]string
	err  error
}

func (r *fakeResource) Kill() {
	if r.log != nil {
		*r.log = append(*r.log, r.name)
	}
}
func (r *fakeResource) Wait() error { return r.err }

func TestResources(t *testing.T) {
	var log []string
	r := common.NewResources()
	if id := r.Register(&fakeResource{name: "a", log: &log}); id != "1" {
		t.Errorf("first id = %s, want 1", id)
	}
	if err := r.RegisterNamed("dataDir", &fakeResource{name: "named", log: &log}); err != nil {
		t.Error(err)
	}
	if err := r.RegisterNamed("dataDir", &fakeResource{}); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("second resource of that name: %v, want already exists", err)
	}
	if err := r.RegisterNamed("7", &fakeResource{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("a number as name: %v, want not valid", err)
	}
	b := &fakeResource{name: "b", log: &log, err: errors.New("broke")}
	id := r.Register(b)
	if id != "2" || r.Count() != 3 || r.Get(id) != common.Resource(b) || r.Get("3") != nil {
		t.Errorf("second id = %s with %d resources", id, r.Count())
	}
	if err := r.Stop(id); err == nil || err.Error() != "broke" {
		t.Errorf("Stop = %v, want the resource's own error", err)
	}
	if err := r.Stop(id); err != nil {
		t.Errorf("second Stop = %v, want nil", err)
	}
	if !r.Given("2") || r.Given("3") || r.Given("0") || r.Given("x") || r.Given("02") {
		t.Error("Given does not tell ids that were from ones that were not")
	}
	r.Register(&fakeResource{name: "c", log: &log})
	r.StopAll()
	r.StopAll()
	if got := strings.Join(log, " "); got != "b c named a" {
		t.Errorf("stopped %s, want b, then the rest from the last to the first", got)
	}
	if r.Context().Err() == nil {
		t.Error("the context goes on after StopAll")
	}
	r.Register(&fakeResource{name: "late", log: &log})
	if log[len(log)-1] != "late" || r.Count() != 0 {
		t.Error("a resource that came after StopAll was not stopped")
	}
}

func TestResourcesForgetWhatWasStopped(t *testing.T) {
	r := common.NewResources()
	defer r.StopAll()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				id := r.Register(&fakeResource{})
				if err := r.Stop(id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r.Count() != 0 {
		t.Errorf("%d resources left, want none", r.Count())
	}
	if id := r.Register(&fakeResource{}); id != strconv.Itoa(4001) {
		t.Errorf("id = %s, want one never used before", id)
	}
}
