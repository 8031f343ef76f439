package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/installs"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// answers is a controller that answers questions for a log one after the other.
type answers struct {
	*apitest.Transcript
	replies []string
}

func (a *answers) Call(ctx context.Context, r rpc.Request, args, result any) error {
	if len(a.replies) > 0 {
		a.Replies, a.replies = map[string]string{"Installs.Log": a.replies[0]}, a.replies[1:]
	}
	return a.Transcript.Call(ctx, r, args, result)
}

func TestTheLogOfAnInstallerIsFollowedOverItsBoots(t *testing.T) {
	tr := &answers{Transcript: &apitest.Transcript{}, replies: []string{
		`{"boot":1,"lines":["one"],"next":1,"newest":1}`,
		`{"boot":1,"lines":["two"],"next":2,"newest":1}`,
		`{"boot":2,"next":2,"newest":2}`, // the machine was booted anew
		`{"boot":2,"lines":["three"],"next":1,"newest":2}`,
		`{"boot":2,"next":1,"newest":2,"ended":true,"message":"step stream-image: no"}`,
	}}
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.installerLog(t.Context(), installs.New(tr), params.InstallLogQuery{Name: "h", Wait: true}); err != nil {
		t.Fatal(err)
	}
	if want := "one\ntwo\n--- boot 2 ---\nthree\n--- ended: step stream-image: no ---\n"; out.String() != want {
		t.Errorf("output:\n%swant:\n%s", out.String(), want)
	}
	golden.Check(t, "hostlog.golden", tr.String())
	tr.replies = []string{`{"boot":0,"next":0}`}
	err := a.installerLog(t.Context(), installs.New(tr), params.InstallLogQuery{Name: "h"})
	if err == nil || err.Error() != "host h was never installed" {
		t.Errorf("log of a host that was never installed: %v", err)
	}
}

func TestWhatIsShownOfAnInstaller(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := params.InstallReport{
		Phase: "running", Step: "stream-image (21 of 37)", Disk: []byte(`{"serial":"S1","wwn":"0x5"}`),
		Boots:  []params.InstallBoot{{Number: 1, Purpose: "install", Phase: "failed", Message: "silent", Started: at}, {Number: 2, Purpose: "install", Phase: "running", Started: at}},
		Health: []byte(`[{"name":"memory","status":"pass"},{"name":"ecc","status":"skip"},{"name":"thermal-state","status":"fail","message":"81 degrees"}]`),
	}
	var out strings.Builder
	installerLines(func(name, value string) {
		if value != "" {
			_, _ = io.WriteString(&out, fmt.Sprintf("%s: %s\n", name, value))
		}
	}, r)
	want := `installer: boot 1: install, failed: silent (2026-01-02 03:04:05Z)
installer: boot 2: install, running (2026-01-02 03:04:05Z)
step: stream-image (21 of 37)
disk: system on the one with serial S1 0x5
health: 1 fail, 1 pass, 1 skip; thermal-state: 81 degrees
`
	if out.String() != want {
		t.Errorf("lines:\n%swant:\n%s", out.String(), want)
	}
	if text := healthText([]byte(`{`)); text != "" {
		t.Errorf("health that cannot be read: %q", text)
	}
}
