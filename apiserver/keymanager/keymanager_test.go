package keymanager_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/keymanager"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/statetest"
)

// Keys that were made for this test; nobody has the other halves.
const (
	one = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f one@example"
	two = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA two@example"
)

func TestKeys(t *testing.T) {
	ctx := context.Background()
	site, _ := statetest.OpenMemory(t)
	k, err := keymanager.New(site.Default, facadetest.Connect(t, facadetest.Writer))
	if err != nil {
		t.Fatal(err)
	}
	added, err := k.AddKeys(ctx, params.ModifyUserSSHKeys{User: "admin", Keys: []string{one, one, "rubbish", one + "\n" + two, two}})
	if err != nil {
		t.Fatal(err)
	}
	list := func(mode bool) []string {
		got, err := k.ListKeys(ctx, params.ListSSHKeys{Entities: facadetest.Entities("admin"), Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		return got.Results[0].Result
	}
	facadetest.Equal(t, "keys", list(true), one, two)
	prints := list(false)
	if len(prints) != 2 {
		t.Fatalf("fingerprints = %q, want two", prints)
	}
	print := prints[0][:47]
	facadetest.Equal(t, "AddKeys", facadetest.Texts(added.Results), "", "SSH key "+print+" already exists [already exists]",
		`SSH key "rubbish" (use a line such as "ssh-ed25519 AAAA... NAME") not valid`, `SSH key "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAB" (use a line such as "ssh-ed25519 AAAA... NAME") not valid`, "")
	deleted, err := k.DeleteKeys(ctx, params.ModifyUserSSHKeys{Keys: []string{print, "two@example", "", "three"}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "DeleteKeys", facadetest.Texts(deleted.Results), "", "", `SSH key "" not found [not found]`, `SSH key "three" not found [not found]`)
	facadetest.Equal(t, "keys", list(true))
	for _, who := range []facadetest.Caller{facadetest.Reader, facadetest.Manager, {}} {
		if _, err := keymanager.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
}
