package usermanager_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/usermanager"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"UserManager.AddUser":     `{"results":[{"tag":"user-bob"}]}`,
		"UserManager.UserInfo":    `{"results":[{"result":{"username":"bob","access":"login"}}]}`,
		"UserManager.SetPassword": `{"results":[{"error":{"message":"permission denied","code":"unauthorized access"}}]}`,
	}}
	c, ctx := usermanager.New(tr), t.Context()
	tag, err := c.Add(ctx, params.AddUser{UserName: "bob", DisplayName: "Bob", Password: "secret of bob"})
	tr.Note("%v, %v", tag, err)
	for _, tags := range [][]string{nil, {"user-bob"}} {
		users, err := c.Info(ctx, tags...)
		tr.Note("%v %v, %v", users[0].Value.UserName, users[0].Value.Access, err)
	}
	err = c.SetPassword(ctx, "user-bob", "another secret")
	tr.Note("%v", err)
	if !errors.Is(err, errors.Unauthorized) {
		t.Errorf("SetPassword = %v, want Unauthorized", err)
	}
	golden.Check(t, "transcript.golden", tr.String())
}
