package controller_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestModifyControllerAccess(t *testing.T) {
	ctx := context.Background()
	site, _ := statetest.OpenMemory(t)
	if _, err := site.Users().Add(ctx, state.UserSpec{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	conn := facadetest.Connect(t, facadetest.Superuser)
	c, err := maker.V3(site.Management, conn)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ user, action, level, want string }{
		{"user-bob", "grant", "superuser", ""},
		{"user-bob", "grant", "add-model", "user bob with add-model access or greater already exists [already exists]"},
		{"user-bob", "revoke", "superuser", ""},
		{"user-bob", "revoke", "superuser", "superuser access of user bob not found [not found]"},
		{"user-bob", "revoke", "login", "revoking login access (disable the user instead): not valid"},
		{"user-admin", "revoke", "superuser", "revoking one's own access not valid"},
		{"user-bob", "take", "superuser", `action "take" (want grant or revoke) not valid`},
		{"user-bob", "grant", "read", `controller access "read" (want login, add-model or superuser) not valid`},
		{"user-nobody", "grant", "login", `user "nobody" not found [user not found]`},
		{"rubbish", "grant", "login", `"rubbish" is not a valid tag`},
	}
	var args params.ModifyControllerAccessRequest
	var want []string
	for _, test := range tests {
		args.Changes = append(args.Changes, params.ModifyControllerAccess{UserTag: test.user, Action: test.action, Access: test.level})
		want = append(want, test.want)
	}
	got, err := c.ModifyControllerAccess(ctx, args)
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "ModifyControllerAccess", facadetest.Texts(got.Results), want...)
	if u, err := site.Users().Get(ctx, "bob"); err != nil || u.Access() != access.AddModel {
		t.Errorf("bob has %s, %v, want add-model", u.Access(), err)
	}
	facadetest.Equal(t, "connections ended", conn.Sessions.(*facadetest.Sessions).Dropped, "user-bob")
}

func TestOnlySuperusersModifyAccess(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{facadetest.Reader, {Tag: "user-bob", Controller: access.AddModel}} {
		c, err := maker.V3(site.Management, facadetest.Connect(t, who))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.ModifyControllerAccess(context.Background(), params.ModifyControllerAccessRequest{}); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("ModifyControllerAccess by %+v = %v, want it denied", who, err)
		}
	}
}
