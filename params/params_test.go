package params_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/params"
)

var (
	since     = time.Date(2016, 10, 13, 12, 59, 18, 123456789, time.UTC)
	forbidden = &params.Error{Message: "permission denied", Code: params.CodeUnauthorized}
	cores     = uint64(2)
	noTags    = []string{}
)

// samples are bodies as the protocol fixes them.
var samples = []struct {
	name string
	body any
	want string
}{
	{"set passwords, mixed",
		params.ErrorResults{Results: []params.ErrorResult{{}, {Error: forbidden}}},
		`{"results":[{},{"error":{"message":"permission denied","code":"unauthorized access"}}]}`},
	{"distribution group",
		params.DistributionGroupResults{Results: []params.DistributionGroupResult{
			{Result: []string{"i-1"}}, {Result: []string{}}, {Error: forbidden}}},
		`{"results":[{"result":["i-1"]},{"result":[]},{"error":{"message":"permission denied","code":"unauthorized access"},"result":null}]}`},
	{"provisioning info, minimal",
		params.ProvisioningInfoResults{Results: []params.ProvisioningInfoResult{{Result: &params.ProvisioningInfo{
			Series: "xenial", Jobs: []string{"JobHostUnits"},
			Tags: map[string]string{"juju-controller-uuid": "c", "juju-model-uuid": "m"}}}}},
		`{"results":[{"result":{"constraints":{},"series":"xenial","placement":"","jobs":["JobHostUnits"],"tags":{"juju-controller-uuid":"c","juju-model-uuid":"m"}}}]}`},
	{"provisioning info, error",
		params.ProvisioningInfoResult{Error: forbidden},
		`{"error":{"message":"permission denied","code":"unauthorized access"},"result":null}`},
	{"status",
		params.StatusResults{Results: []params.StatusResult{{Status: "pending", Data: map[string]any{}, Since: &since}}},
		`{"results":[{"id":"","life":"","status":"pending","info":"","data":{},"since":"2016-10-13T12:59:18.123456789Z"}]}`},
	{"transient errors, none", params.StatusResults{}, `{"results":null}`},
	{"transient errors, one",
		params.StatusResults{Results: []params.StatusResult{{ID: "1", Life: "alive", Status: "error", Info: "x", Data: map[string]any{"transient": true}}}},
		`{"results":[{"id":"1","life":"alive","status":"error","info":"x","data":{"transient":true},"since":null}]}`},
	{"notify watch", params.NotifyWatchResult{NotifyWatcherID: "3"}, `{"NotifyWatcherId":"3"}`},
	{"strings watch, empty",
		params.StringsWatchResults{Results: []params.StringsWatchResult{{StringsWatcherID: "2", Changes: []string{}}}},
		`{"results":[{"watcher-id":"2"}]}`},
	{"container config",
		params.ContainerConfig{ProviderType: "lxd", AuthorizedKeys: "ssh-rsa k", SSLHostnameVerification: true,
			UpdateBehavior: params.UpdateBehavior{EnableOSRefreshUpdate: true, EnableOSUpgrade: true}},
		`{"provider-type":"lxd","authorized-keys":"ssh-rsa k","ssl-hostname-verification":true,` +
			`"proxy":{"Http":"","Https":"","Ftp":"","NoProxy":""},"apt-proxy":{"Http":"","Https":"","Ftp":"","NoProxy":""},` +
			`"apt-mirror":"","enable-os-refresh-update":true,"enable-os-upgrade":true}`},
	{"container manager config",
		params.ContainerManagerConfig{ManagerConfig: map[string]string{"model-uuid": "m"}}, `{"config":{"model-uuid":"m"}}`},
	{"tools, error",
		params.ToolsResults{Results: []params.ToolsResult{{Error: forbidden}}},
		`{"results":[{"tools":null,"disable-ssl-hostname-verification":false,"error":{"message":"permission denied","code":"unauthorized access"}}]}`},
	{"interface info, error",
		params.MachineNetworkConfigResult{Error: forbidden},
		`{"error":{"message":"permission denied","code":"unauthorized access"},"info":null}`},
	{"constraints say cores",
		params.ConstraintsResult{Constraints: constraints.Value{Cores: &cores, Tags: &noTags}}, `{"constraints":{"cores":2,"tags":[]}}`},
	{"full status, empty model",
		params.FullStatus{Model: params.ModelStatusInfo{Name: "m", CloudTag: "cloud-x"},
			Machines: map[string]params.MachineStatus{}, Applications: map[string]struct{}{}},
		`{"model":{"name":"m","cloud-tag":"cloud-x","version":"","available-version":""},"machines":{},"applications":{},"relations":null}`},
	{"agent entities", params.AgentGetEntitiesResults{Entities: []params.AgentEntity{{Life: "alive", Jobs: []string{"JobHostUnits"}}}},
		`{"entities":[{"life":"alive","jobs":["JobHostUnits"],"container-type":""}]}`},
	{"delta",
		params.AllWatcherNextResults{Deltas: []params.Delta{{Removed: true, Entity: &params.ModelUpdate{ModelUUID: "u"}}}},
		`{"deltas":[["model","remove",{"model-uuid":"u","name":"","life":"","owner":"","controller-uuid":"","is-controller":false,"status":{"current":"","message":"","version":""}}]]}`},
	{"login", params.LoginRequest{AuthTag: "machine-0", Credentials: "pw", Nonce: "n0"},
		`{"auth-tag":"machine-0","credentials":"pw","nonce":"n0"}`},
}

func TestBodiesAreAsTheProtocolFixesThem(t *testing.T) {
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			got, err := json.Marshal(s.body)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != s.want {
				t.Errorf("body =\n%s\nwant\n%s", got, s.want)
			}
		})
	}
}

func TestKeysAreReadInAnyCase(t *testing.T) {
	var got params.Entities
	if err := json.Unmarshal([]byte(`{"Entities":[{"Tag":"machine-0","stray":1}]}`), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Entities) != 1 || got.Entities[0].Tag != "machine-0" {
		t.Errorf("entities = %+v, want machine-0", got)
	}
}

func TestDeltaReadsBackWhatItWrote(t *testing.T) {
	in := []params.Delta{
		{Entity: &params.MachineUpdate{ModelUUID: "u", ID: "0", Life: "alive", AgentStatus: params.StatusUpdate{Current: "pending", Since: &since}}},
		{Removed: true, Entity: &params.ModelUpdate{ModelUUID: "u"}},
	}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out []params.Delta
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, again) {
		t.Errorf("read back\n%s\nwant\n%s", again, data)
	}
}

func TestDeltaOfAnUnknownKindIsPassedOver(t *testing.T) {
	var d params.Delta
	if err := json.Unmarshal([]byte(`["charm","change",{"model-uuid":"u"}]`), &d); err != nil {
		t.Fatal(err)
	}
	if d.Entity != nil {
		t.Errorf("entity = %v, want none", d.Entity)
	}
	for _, bad := range []string{`{}`, `["machine"]`, `[1,"change",{}]`, `["machine",1,{}]`, `["machine","change",7]`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("no error for %s", bad)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	const password = "correct horse battery staple"
	holders := []any{
		params.LoginRequest{Credentials: password},
		&params.EntityPasswords{Changes: []params.EntityPassword{{Password: password}}},
		params.AddUsers{Users: []params.AddUser{{Password: password}}},
		params.AddWorkerResult{Result: &params.WorkerIdentity{Password: password}},
		params.WorkerIdentity{Password: password},
	}
	for _, h := range holders {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, h); strings.Contains(text, password) {
				t.Errorf("%T prints its secret with %s: %s", h, verb, text)
			}
		}
	}
}
