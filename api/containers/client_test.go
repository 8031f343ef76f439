package containers_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/containers"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{"Containers.WatchRetries": `{"results":[{"NotifyWatcherId":"3"}]}`}}
	w, err := containers.New(tr, "1").WatchRetries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-w.Changes()
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAWatchThatWasRefused(t *testing.T) {
	for name, reply := range map[string]string{
		"refused":   `{"results":[{"NotifyWatcherId":"","error":{"message":"permission denied","code":"unauthorized access"}}]}`,
		"no answer": `{"results":[]}`,
	} {
		tr := &apitest.Transcript{Replies: map[string]string{"Containers.WatchRetries": reply}}
		_, err := containers.New(tr, "1").WatchRetries(t.Context())
		if err == nil || errors.Is(err, errors.Unauthorized) != (name == "refused") {
			t.Errorf("%s: WatchRetries = %v", name, err)
		}
	}
}
