package apiserver_test

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// replay plays a transcript: lines that start with > are sent, those with < must
// be what is answered, and those with ? likewise but in any order among
// themselves. Words in fill are replaced.
func replay(t *testing.T, ws *websocket.Conn, path string, fill *strings.Replacer) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := func() string {
		_, frame, err := ws.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		return string(frame)
	}
	var unordered []string
	settle := func(n int) {
		var got []string
		for range unordered {
			got = append(got, read())
		}
		slices.Sort(got)
		slices.Sort(unordered)
		if !slices.Equal(got, unordered) {
			t.Errorf("before line %d: got  %s\nwant %s", n, got, unordered)
		}
		unordered = nil
	}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		mark, frame, _ := strings.Cut(fill.Replace(lines.Text()), " ")
		if mark != "?" {
			settle(n)
		}
		switch mark {
		case ">":
			if err := ws.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
				t.Fatal(err)
			}
		case "<":
			if got := read(); got != frame {
				t.Errorf("line %d: got  %s\nwant %s", n, got, frame)
			}
		case "?":
			unordered = append(unordered, frame)
		}
	}
	settle(0)
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestConformanceTranscript(t *testing.T) {
	s := newEmbeddedSite(t)
	statetest.AddMachine(t, s.Management, state.MachineSpec{Jobs: []job.Job{job.ManageModel}})
	path := modelPath(s.ControllerModelUUID())
	listed, err := login(s.dial(path), manager)
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(listed.Facades)
	if err != nil {
		t.Fatal(err)
	}
	ws, _, err := s.raw(path)
	if err != nil {
		t.Fatal(err)
	}
	replay(t, ws, "testdata/appendix.txt", strings.NewReplacer(
		"PASSWORD", statetest.MachinePassword, "NONCE", statetest.MachineNonce,
		"MODEL", s.ControllerModelUUID(), "CONTROLLER", s.ControllerUUID(), "FACADES", string(list)))
	if !slices.ContainsFunc(listed.Facades, func(f params.FacadeVersions) bool { return f.Name == "Pinger" }) {
		t.Error("Pinger is not listed, without which some clients do not connect")
	}
}
