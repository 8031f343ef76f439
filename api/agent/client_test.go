package agent_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/agent"
	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Agent.GetEntities":  `{"entities":[{"life":"alive","jobs":["JobManageModel"],"container-type":""}]}`,
		"Agent.SetPasswords": `{"results":[{"error":{"message":"password is only 4 bytes long, and is not a valid Agent password","code":""}}]}`,
	}}
	c, ctx := agent.New(tr, "machine-0"), t.Context()
	entity, err := c.Entity(ctx)
	tr.Note("%+v, %v", entity, err)
	tr.Note("%v", c.SetPassword(ctx, "xxx1"))
	golden.Check(t, "transcript.golden", tr.String())
}
