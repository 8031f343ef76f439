package modelmanager_test

import (
	"testing"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/modelmanager"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
)

func TestModifyModelAccess(t *testing.T) {
	site, _ := open(t)
	conn := facadetest.Connect(t, facadetest.Superuser)
	m, err := modelmanager.New(site.Management, conn)
	if err != nil {
		t.Fatal(err)
	}
	model := "model-" + site.Default.ModelUUID()
	tests := []struct{ user, action, level, model, want string }{
		{"user-bob", "grant", "write", model, ""},
		{"user-bob", "grant", "read", model, "cannot grant model access: user bob with read access or greater already exists [already exists]"},
		{"user-bob", "revoke", "write", model, ""},
		{"user-bob", "revoke", "write", model, "cannot revoke model access: write access of user bob not found [not found]"},
		{"user-admin", "revoke", "read", model, "cannot revoke model access: revoking the owner's access not valid"},
		{"user-nobody", "grant", "read", model, `cannot grant model access: user "nobody" not found [user not found]`},
		{"user-bob", "take", "read", model, `action "take" (want grant or revoke) not valid`},
		{"user-bob", "grant", "login", model, `model access "login" (want read, write or admin) not valid`},
		{"rubbish", "grant", "read", model, `"rubbish" is not a valid tag`},
		{"user-bob", "grant", "read", "model-deadbeef-0bad-400d-8000-4b1d0d06f00d", `model "deadbeef-0bad-400d-8000-4b1d0d06f00d" not found [model not found]`},
	}
	var args params.ModifyModelAccessRequest
	var want []string
	for _, test := range tests {
		args.Changes = append(args.Changes, params.ModifyModelAccess{UserTag: test.user, Action: test.action, Access: test.level, ModelTag: test.model})
		want = append(want, test.want)
	}
	got, err := m.ModifyModelAccess(ctx, args)
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "ModifyModelAccess", facadetest.Texts(got.Results), want...)
	if found, err := site.Default.Model(ctx); err != nil || found.UserAccess("bob") != access.Read {
		t.Errorf("bob has %q, %v, want read", found.UserAccess("bob"), err)
	}
	facadetest.Equal(t, "connections ended", conn.Sessions.(*facadetest.Sessions).Dropped, "user-bob")
}

func TestOnlyAdministratorsShareModels(t *testing.T) {
	site, as := open(t)
	model := "model-" + site.Default.ModelUUID()
	found, err := site.Default.Model(ctx)
	if err != nil {
		t.Fatal(err)
	}
	share := func(model string) string {
		t.Helper()
		got, err := as(bob).ModifyModelAccess(ctx, params.ModifyModelAccessRequest{
			Changes: []params.ModifyModelAccess{{UserTag: "user-eve", Action: "grant", Access: "read", ModelTag: model}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return facadetest.Text(got.Results[0].Error)
	}
	for _, level := range []access.Model{"", access.Read, access.Write} {
		if level != "" {
			if err := found.Grant(ctx, "bob", level); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range []string{model, "model-deadbeef-0bad-400d-8000-4b1d0d06f00d"} {
			if got := share(m); got != facadetest.Denied {
				t.Errorf("granting with %q access = %q, want it denied", level, got)
			}
		}
	}
	if err := found.Grant(ctx, "bob", access.Admin); err != nil {
		t.Fatal(err)
	}
	if got := share(model); got != "" {
		t.Errorf("granting by an administrator = %q", got)
	}
}
