package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api/logs"
	"github.com/slipway-project/slipway/params"
)

// owned is what a hostile machine puts into all that it reports: it would clear the
// screen in three ways, forge a line, and turn the text around.
const owned = "x\x1b[2J\u009b2J\r\nstate:     provisioned\tok\u202e\x07"

// sober fails unless text does nothing to a terminal, and has no line forged by owned.
func sober(t *testing.T, what, text string) {
	t.Helper()
	if !strings.Contains(text, "[2J") && !strings.Contains(text, "2J") {
		t.Errorf("%s shows nothing of the machine's text: %q", what, text)
	}
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r == 0x202e {
			t.Errorf("%s has %U: %q", what, r, text)
			return
		}
	}
	if strings.Contains(text, "\nstate:     provisioned") {
		t.Errorf("%s has a forged line: %q", what, text)
	}
}

// hostileHost returns a host whose machine reported what is not to reach a terminal.
func hostileHost(t *testing.T) hostView {
	t.Helper()
	quoted, err := json.Marshal(owned)
	if err != nil {
		t.Fatal(err)
	}
	q := string(quoted)
	v, err := viewOf(params.Host{Name: "h", Record: json.RawMessage(`{"metadata":{"name":"h"},"spec":{"bmc":{"address":"simulated://h"}},"status":{
		"errorMessage":` + q + `,"hardware":{"systemVendor":{"manufacturer":` + q + `},"cpu":{"arch":` + q + `}}}}`),
		Events: []params.HostEvent{{Reason: owned, Message: owned}}})
	if err != nil {
		t.Fatal(err)
	}
	v.Installer = &params.InstallReport{Step: owned, Boots: []params.InstallBoot{{Number: 1, Message: owned}},
		Disk:   json.RawMessage(`{"serial":` + q + `}`),
		Health: json.RawMessage(`[{"name":` + q + `,"status":"fail","message":` + q + `}]`)}
	return v
}

func TestMachinesDoNothingToTheScreen(t *testing.T) {
	v := hostileHost(t)
	for _, f := range []format{tabular, jsonFormat, yamlFormat} {
		var one, all bytes.Buffer
		if err := show(newScreen(&one), f, v, v.table); err != nil {
			t.Fatal(err)
		}
		sober(t, "show-host as "+string(f), one.String())
		if err := show(newScreen(&all), f, []hostView{v}, func(w io.Writer) { hostsTable(w, []hostView{v}) }); err != nil {
			t.Fatal(err)
		}
		sober(t, "hosts as "+string(f), all.String())
		if f != jsonFormat {
			continue
		}
		var back hostView
		if err := json.Unmarshal(one.Bytes(), &back); err != nil || back.Events[0].Message != owned {
			t.Errorf("JSON says %q, %v, and means %q", back.Events[0].Message, err, owned)
		}
	}
	var out bytes.Buffer
	if err := showRecord(newScreen(&out), logs.Record{Entity: owned, Module: owned, Location: owned, Level: owned, Message: owned, Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	sober(t, "debug-log", out.String())
}

func TestErrorsOfOthersDoNothingToTheScreen(t *testing.T) {
	var out, failed bytes.Buffer
	env := func(string) string { return t.TempDir() }
	if err := run(t.Context(), []string{owned}, strings.NewReader(""), &out, &failed, env); err == nil {
		t.Fatal("there is such a command")
	}
	sober(t, "an error", failed.String())
}
