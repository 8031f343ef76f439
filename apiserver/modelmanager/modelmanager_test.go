package modelmanager_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/modelmanager"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

// The people of these tests.
var (
	bob = facadetest.Caller{Tag: "user-bob", Controller: access.AddModel}
	eve = facadetest.Caller{Tag: "user-eve", Controller: access.Login}
)

func open(t *testing.T) (*statetest.Site, func(who facadetest.Caller) *modelmanager.ModelManager) {
	t.Helper()
	site, _ := statetest.OpenMemory(t)
	for _, name := range []string{"bob", "eve"} {
		if _, err := site.Users().Add(ctx, state.UserSpec{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return site, func(who facadetest.Caller) *modelmanager.ModelManager {
		m, err := modelmanager.New(site.Management, facadetest.Connect(t, who))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func names(t *testing.T, m *modelmanager.ModelManager, tag string) (out []string) {
	t.Helper()
	list, err := m.ListModels(ctx, params.Entity{Tag: tag})
	if err != nil {
		return []string{err.Error()}
	}
	for _, u := range list.UserModels {
		out = append(out, u.Model.OwnerTag+"/"+u.Model.Name)
	}
	return out
}

func TestOnlyPeopleGetTheFacade(t *testing.T) {
	site, _ := open(t)
	if _, err := modelmanager.New(site.Management, facadetest.Connect(t, facadetest.Manager)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("New for a manager = %v, want it denied", err)
	}
}

func TestModelsFromBirthToDeath(t *testing.T) {
	site, as := open(t)
	made, err := as(bob).CreateModel(ctx, params.ModelCreateArgs{Name: "lab", OwnerTag: "user-bob", Config: map[string]any{"zones": 2}})
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != "lab" || made.OwnerTag != "user-bob" || made.ProviderType != "simulated" || made.CloudTag != "cloud-simulated" || made.Life != "alive" ||
		made.ControllerUUID != site.ControllerUUID() || len(made.Users) != 1 || made.Status.Status != "available" {
		t.Errorf("CreateModel = %+v", made)
	}
	facadetest.Equal(t, "models of bob", names(t, as(bob), "user-bob"), "user-bob/lab")
	facadetest.Equal(t, "models of eve", names(t, as(eve), "user-eve"))
	facadetest.Equal(t, "models of bob, told to eve", names(t, as(eve), "user-bob"), "permission denied")
	facadetest.Equal(t, "models of a superuser", names(t, as(facadetest.Superuser), "user-admin"), "user-admin/controller", "user-admin/default", "user-bob/lab")
	facadetest.Equal(t, "models of bob, told to a superuser", names(t, as(facadetest.Superuser), "user-bob"), "user-bob/lab")
	facadetest.Equal(t, "models of nonsense", names(t, as(eve), "bob"), `"bob" is not a valid tag`)

	lab, other := "model-"+made.UUID, "model-"+site.Default.ModelUUID()
	missing := "model-deadbeef-0bad-400d-8000-4b1d0d06f00d"
	info, err := as(bob).ModelInfo(ctx, facadetest.Entities(lab, other, missing, "rubbish"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range info.Results {
		name := facadetest.Text(r.Error)
		if r.Result != nil {
			name = r.Result.Name
		}
		out = append(out, name)
	}
	facadetest.Equal(t, "ModelInfo", out, "lab", facadetest.Denied, facadetest.Denied, `"rubbish" is not a valid tag`)

	for _, test := range []struct {
		who  facadetest.Caller
		want []string
	}{
		{eve, []string{facadetest.Denied, facadetest.Denied, facadetest.Denied}},
		{bob, []string{"", facadetest.Denied, facadetest.Denied}},
		{facadetest.Superuser, []string{"", "", `model "deadbeef-0bad-400d-8000-4b1d0d06f00d" not found [model not found]`}},
	} {
		got, err := as(test.who).DestroyModels(ctx, facadetest.Entities(lab, other, missing))
		if err != nil {
			t.Fatal(err)
		}
		facadetest.Equal(t, "DestroyModels by "+test.who.Tag, facadetest.Texts(got.Results), test.want...)
	}
	got, err := as(facadetest.Superuser).DestroyModels(ctx, facadetest.Entities("model-"+site.ControllerModelUUID()))
	if err != nil || got.Results[0].Error == nil {
		t.Errorf("DestroyModels of the controller model = %+v, %v, want it refused", got, err)
	}
	info, err = as(bob).ModelInfo(ctx, facadetest.Entities(lab))
	if err != nil || info.Results[0].Result == nil || info.Results[0].Result.Status.Status != "destroying" {
		t.Errorf("ModelInfo of a dying model = %+v, %v", info, err)
	}
}

func TestCreateModelRefuses(t *testing.T) {
	_, as := open(t)
	if _, err := as(bob).CreateModel(ctx, params.ModelCreateArgs{Name: "lab", OwnerTag: "user-bob"}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		who  facadetest.Caller
		args params.ModelCreateArgs
		want error
	}{
		{"without the right", eve, params.ModelCreateArgs{Name: "x", OwnerTag: "user-eve"}, errors.Unauthorized},
		{"for somebody else", bob, params.ModelCreateArgs{Name: "x", OwnerTag: "user-eve"}, errors.Unauthorized},
		{"for nonsense", bob, params.ModelCreateArgs{Name: "x", OwnerTag: "eve"}, errors.NotValid},
		{"a second of the name", bob, params.ModelCreateArgs{Name: "lab", OwnerTag: "user-bob"}, errors.AlreadyExists},
		{"a bad name", bob, params.ModelCreateArgs{Name: "La b", OwnerTag: "user-bob"}, errors.NotValid},
		{"an unknown provider", bob, params.ModelCreateArgs{Name: "x", OwnerTag: "user-bob", Config: map[string]any{"type": "dreams"}}, errors.NotValid},
		{"a type that is no text", bob, params.ModelCreateArgs{Name: "x", OwnerTag: "user-bob", Config: map[string]any{"type": 7}}, errors.NotValid},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := as(test.who).CreateModel(ctx, test.args); !errors.Is(err, test.want) {
				t.Errorf("CreateModel = %v, want %v", err, test.want)
			}
		})
	}
	if _, err := as(facadetest.Superuser).CreateModel(ctx, params.ModelCreateArgs{Name: "gift", OwnerTag: "user-eve"}); err != nil {
		t.Errorf("CreateModel by a superuser for somebody else: %v", err)
	}
}
