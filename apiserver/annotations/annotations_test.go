package annotations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/annotations"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestAnnotations(t *testing.T) {
	ctx := context.Background()
	site, _ := statetest.OpenMemory(t)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	a, err := annotations.New(site.Default, facadetest.Connect(t, facadetest.Writer))
	if err != nil {
		t.Fatal(err)
	}
	model := "model-" + site.Default.ModelUUID()
	set := func(tag string, notes map[string]string) params.EntityAnnotations {
		return params.EntityAnnotations{EntityTag: tag, Annotations: notes}
	}
	done, err := a.Set(ctx, params.AnnotationsSet{Annotations: []params.EntityAnnotations{
		set("machine-0", map[string]string{"rack": "7", "gone": "x"}), set("machine-0", map[string]string{"gone": ""}),
		set(model, map[string]string{"team": "blue"}), set("machine-9", nil), set("model-"+site.ControllerModelUUID(), nil), set("rubbish", nil),
		set("machine-0", map[string]string{"": "x"}), set("machine-0", map[string]string{"k": strings.Repeat("x", 5000)}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "Set", facadetest.Texts(done.Results), "", "", "", "machine 9 not found [not found]",
		"model "+site.ControllerModelUUID()+" not found [not found]", `"rubbish" is not a valid tag`,
		`annotation "" of 1 bytes not valid`, `annotation "k" of 5001 bytes not valid`)
	got, err := a.Get(ctx, facadetest.Entities("machine-0", model, "machine-9"))
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Results[0]; len(r.Annotations) != 1 || r.Annotations["rack"] != "7" || r.EntityTag != "machine-0" || r.Error.Error != nil {
		t.Errorf("annotations of machine 0 = %+v", r)
	}
	if r := got.Results[1]; r.Annotations["team"] != "blue" {
		t.Errorf("annotations of the model = %+v", r)
	}
	if r := got.Results[2]; r.Error.Error == nil || r.Error.Error.Code != "not found" {
		t.Errorf("annotations of what is missing = %+v", r)
	}
	reader, err := annotations.New(site.Default, facadetest.Connect(t, facadetest.Reader))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Set(ctx, params.AnnotationsSet{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("Set of a reader = %v, want it denied", err)
	}
	if _, err := annotations.New(site.Default, facadetest.Connect(t, facadetest.Manager)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("New for a manager = %v, want it denied", err)
	}
}
