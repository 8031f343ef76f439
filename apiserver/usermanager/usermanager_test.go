package usermanager_test

import (
	"context"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/usermanager"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

var bob = facadetest.Caller{Tag: "user-bob", Controller: access.Login}

func TestUsers(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	conn := facadetest.Connect(t, facadetest.Superuser)
	all, err := usermanager.New(site.Management, conn)
	if err != nil {
		t.Fatal(err)
	}
	added, err := all.AddUser(ctx, params.AddUsers{Users: []params.AddUser{
		{UserName: "bob", DisplayName: "Bob", Password: "bobs password"}, {UserName: "bob"}, {UserName: "b@d"}, {UserName: "eve"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range added.Results {
		text := facadetest.Text(r.Error)
		out = append(out, r.Tag+strings.TrimPrefix(text, `cannot add user "bob": `))
	}
	facadetest.Equal(t, "AddUser", out, "user-bob", `user "bob" already exists [already exists]`, `cannot add user "b@d": user name "b@d" not valid`, "user-eve")
	if _, err := site.Users().Authenticate(ctx, "bob", "bobs password"); err != nil {
		t.Errorf("bob cannot log in: %v", err)
	}

	own, err := usermanager.New(site.Management, facadetest.Connect(t, bob))
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*usermanager.UserManager{"admin bob eve": all, "bob": own} {
		info, err := m.UserInfo(ctx, params.UserInfoRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range info.Results {
			names = append(names, r.Result.UserName)
		}
		if got := strings.Join(names, " "); got != name {
			t.Errorf("UserInfo = %s, want %s", got, name)
		}
	}
	info, err := all.UserInfo(ctx, params.UserInfoRequest{Entities: facadetest.Entities("user-bob", "user-nobody", "rubbish").Entities})
	if err != nil {
		t.Fatal(err)
	}
	if r := info.Results[0].Result; r == nil || r.DisplayName != "Bob" || r.Access != "login" || r.CreatedBy != "admin" || r.LastConnection != nil || r.Disabled {
		t.Errorf("UserInfo(bob) = %+v", r)
	}
	facadetest.Equal(t, "UserInfo", []string{facadetest.Text(info.Results[1].Error), facadetest.Text(info.Results[2].Error)},
		`user "nobody" not found [user not found]`, `"rubbish" is not a valid tag`)

	changes := params.EntityPasswords{Changes: []params.EntityPassword{
		{Tag: "user-bob", Password: "another password"}, {Tag: "user-eve", Password: "x"}, {Tag: "user-bob"},
	}}
	set, err := own.SetPassword(ctx, changes)
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "SetPassword by bob", facadetest.Texts(set.Results), "", facadetest.Denied, "empty password not valid")
	if _, err := site.Users().Authenticate(ctx, "bob", "another password"); err != nil {
		t.Errorf("bob cannot log in with the new password: %v", err)
	}

	off, err := all.DisableUser(ctx, facadetest.Entities("user-bob", "user-admin", "user-nobody"))
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "DisableUser", facadetest.Texts(off.Results), "", "cannot disable oneself", `user "nobody" not found [user not found]`)
	facadetest.Equal(t, "connections ended", conn.Sessions.(*facadetest.Sessions).Dropped, "user-bob")
	if _, err := site.Users().Authenticate(ctx, "bob", "another password"); err == nil {
		t.Error("bob can log in although disabled")
	}
	if info, err := all.UserInfo(ctx, params.UserInfoRequest{}); err != nil || len(info.Results) != 2 {
		t.Errorf("UserInfo without disabled users = %+v, %v, want two", info, err)
	}
	if info, err := all.UserInfo(ctx, params.UserInfoRequest{IncludeDisabled: true}); err != nil || len(info.Results) != 3 {
		t.Errorf("UserInfo with disabled users = %+v, %v, want three", info, err)
	}
	on, err := all.EnableUser(ctx, facadetest.Entities("user-bob"))
	if err != nil || on.Results[0].Error != nil {
		t.Errorf("EnableUser = %+v, %v", on, err)
	}
}

func TestOthersManageNobody(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	own, err := usermanager.New(site.Management, facadetest.Connect(t, bob))
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"AddUser": func() error {
			_, err := own.AddUser(ctx, params.AddUsers{Users: []params.AddUser{{UserName: "x1"}}})
			return err
		},
		"DisableUser": func() error { _, err := own.DisableUser(ctx, facadetest.Entities("user-admin")); return err },
		"EnableUser":  func() error { _, err := own.EnableUser(ctx, facadetest.Entities("user-admin")); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("%s = %v, want it denied", name, err)
		}
	}
	if _, err := usermanager.New(site.Management, facadetest.Connect(t, facadetest.Manager)); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("New for a manager = %v, want it denied", err)
	}
	info, err := own.UserInfo(ctx, params.UserInfoRequest{Entities: facadetest.Entities("user-admin", "user-nobody").Entities})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range info.Results {
		if facadetest.Text(r.Error) != facadetest.Denied || r.Result != nil {
			t.Errorf("UserInfo of somebody else = %+v, want it denied whether or not there is one", r)
		}
	}
}
