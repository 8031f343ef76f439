package apiserver_test

import (
	"testing"
	"time"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
)

// TestAccessIsWhatWasGranted walks somebody through all levels of access to a
// model.
func TestAccessIsWhatWasGranted(t *testing.T) {
	s := newSite(t)
	model := s.Default.ModelUUID()
	path := modelPath(model)
	bob := s.person("bob", access.Login, "")
	super := s.as("/api", admin)
	modify := func(action, level string) {
		t.Helper()
		var r params.ErrorResults
		err := call(super, "ModelManager", 2, "ModifyModelAccess", params.ModifyModelAccessRequest{Changes: []params.ModifyModelAccess{
			{UserTag: bob.tag, Action: action, Access: level, ModelTag: "model-" + model},
		}}, &r)
		if err != nil || r.Results[0].Error != nil {
			t.Fatalf("%s %s: %v, %+v", action, level, err, r)
		}
	}
	if _, err := login(s.dial(path), bob); failure(err) != "permission denied [unauthorized access]" {
		t.Errorf("login without access = %v", err)
	}
	add := params.AddMachines{Machines: []params.AddMachineParams{{Jobs: []string{"JobHostUnits"}}}}

	modify("grant", "read")
	reader := s.as(path, bob)
	if err := call(reader, "Client", 1, "FullStatus", nil, nil); err != nil {
		t.Errorf("status for a reader = %v", err)
	}
	if err := call(reader, "Client", 1, "AddMachinesV2", add, nil); failure(err) != "permission denied [unauthorized access]" {
		t.Errorf("a reader adds machines: %v", err)
	}

	modify("grant", "write")
	if err := call(reader, "Client", 1, "AddMachinesV2", add, nil); failure(err) != "permission denied [unauthorized access]" {
		t.Errorf("the right of a connection grew: %v", err)
	}
	writer := s.as(path, bob)
	if err := call(writer, "Client", 1, "AddMachinesV2", add, nil); err != nil {
		t.Errorf("a writer cannot add machines: %v", err)
	}

	// Who loses a right loses the connections that have it.
	modify("revoke", "write")
	select {
	case <-writer.Dead():
	case <-time.After(patience):
		t.Fatal("the connection of a writer outlives the right to write")
	}
	if err := call(s.as(path, bob), "Client", 1, "AddMachinesV2", add, nil); failure(err) != "permission denied [unauthorized access]" {
		t.Errorf("a reader adds machines: %v", err)
	}

	var r params.ErrorResults
	if err := call(super, "UserManager", 1, "DisableUser", entities(bob.tag), &r); err != nil || r.Results[0].Error != nil {
		t.Fatalf("DisableUser: %v, %+v", err, r)
	}
	if _, err := login(s.dial(path), bob); failure(err) != "invalid entity name or password [unauthorized access]" {
		t.Errorf("login of somebody disabled = %v", err)
	}
}
