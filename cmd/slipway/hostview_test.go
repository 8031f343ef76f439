package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

// hostsToShow are hosts in the states that people ask about.
func hostsToShow(t *testing.T) []hostView {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record := func(name, more string) json.RawMessage {
		return json.RawMessage(`{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"` + name + `",
			"labels":{"ssd":"","zone":"z1"}},"spec":{"bmc":{"address":"redfish://10.0.0.7"},"bootMACAddress":"52:54:00:00:00:01",
			"online":true,"image":{"url":"http://images/jammy.qcow2"}},"status":` + more + `}`)
	}
	const hardware = `"hardware":{"systemVendor":{"manufacturer":"Example","productName":"R1","serialNumber":"S"},
		"firmware":{"bios":{"date":"","vendor":"","version":""}},"ramMebibytes":65536,"nics":[],"storage":[{"name":"/dev/sda","sizeBytes":1}],
		"cpu":{"arch":"x86_64","model":"","clockMegahertz":0,"count":32}}`
	var out []hostView
	for _, h := range []params.Host{
		{Name: "fresh", Record: json.RawMessage(`{"metadata":{"name":"fresh"},"spec":{"bmc":{"address":"simulated://fresh"}},"status":{}}`), ReserveFor: "deadbeef-0bad-400d-8000-4b1d0d06f00d"},
		{Name: "queued", Record: record("queued", `{"provisioning":{"state":"provisioning"},`+hardware+`}`),
			Consumer: &params.HostConsumer{ModelUUID: "deadbeef-0bad-400d-8000-4b1d0d06f00d", MachineID: "3"},
			Progress: params.HostProgress{Owner: "queue", Place: 2, Reason: "a place among those that write images", Since: at, Deadline: at.Add(time.Hour)}},
		{Name: "failed", Record: record("failed", `{"provisioning":{"state":"registering"},"errorType":"registration error","errorMessage":"the BMC refuses\nthe password","errorCount":3}`),
			Progress: params.HostProgress{Owner: "host manager", NextTry: at}, HasCredentials: true,
			Events: []params.HostEvent{{Reason: "RegistrationError", Message: "the BMC refuses the password", Time: at}}},
		{Name: "done", Record: record("done", `{"provisioning":{"state":"provisioned"},"poweredOn":true,`+hardware+`}`)},
	} {
		v, err := viewOf(h)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

func TestHostsAreShown(t *testing.T) {
	views := hostsToShow(t)
	for _, f := range []format{"tabular", "yaml", "json"} {
		var all, one bytes.Buffer
		if err := show(&all, f, map[string][]hostView{"hosts": views}, func(w io.Writer) { hostsTable(w, views) }); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "hosts."+string(f)+".golden", all.String())
		for _, v := range views[1:3] {
			if err := show(&one, f, v, v.table); err != nil {
				t.Fatal(err)
			}
		}
		golden.Check(t, "show-host."+string(f)+".golden", one.String())
	}
}
