package controller_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/controller"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Controller.ModifyControllerAccess": `{"results":[{"error":{"message":"user \"bob\" not found","code":"user not found"}}]}`,
	}}
	tr.Note("%v", controller.New(tr).ModifyAccess(t.Context(), "user-bob", "grant", "superuser"))
	golden.Check(t, "transcript.golden", tr.String())
}
