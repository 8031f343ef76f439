package apiserver_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// request makes an HTTP request; no credentials means none.
func (s *site) request(method, path, body string, who credentials) (int, http.Header, string) {
	s.t.Helper()
	transport := &http.Transport{TLSClientConfig: s.tls}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "https://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if who.tag != "" {
		r.SetBasicAuth(who.tag, who.password)
		r.Header.Set("X-Juju-Nonce", who.nonce)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, strings.TrimSpace(string(text))
}

const jammyBinary = "2.0.0-jammy-amd64"

// Cases: provisioner/FindTools
func TestAgentBinaries(t *testing.T) {
	s := newEmbeddedSite(t)
	model := "/model/" + s.Default.ModelUUID()
	content := strings.Repeat("agent", 300_000)
	sum := sha256.Sum256([]byte(content))
	text := hex.EncodeToString(sum[:])
	code, _, body := s.request("POST", model+"/tools?binaryVersion="+jammyBinary+"&sha256="+text, content, admin)
	var kept params.ToolsResult
	if err := json.Unmarshal([]byte(body), &kept); code != http.StatusOK || err != nil || len(kept.Tools) != 1 || kept.Tools[0].SHA256 != text {
		t.Fatalf("upload = %d %s, %v", code, body, err)
	}
	for _, prefix := range []string{model, "", "/model/no-such-model"} {
		code, header, body := s.request("GET", prefix+"/tools/"+jammyBinary, "", credentials{})
		if code != http.StatusOK || body != content || header.Get("X-Content-SHA256") != text {
			t.Errorf("download from %q = %d, %d bytes, sum %q", prefix, code, len(body), header.Get("X-Content-SHA256"))
		}
	}
	if code, header, body := s.request("HEAD", model+"/tools/"+jammyBinary, "", credentials{}); code != http.StatusOK || body != "" || header.Get("Content-Length") != "1500000" {
		t.Errorf("HEAD = %d, %q bytes", code, header.Get("Content-Length"))
	}

	// A download that was broken off goes on, also over the bounds of what is stored together.
	plain := &installerSite{site: s}
	for _, part := range [][2]int{{0, 9}, {524280, 524295}, {1_000_000, 1_499_999}} {
		code, header, body := plain.ask("GET", model+"/tools/"+jammyBinary, "", "", "Range", fmt.Sprintf("bytes=%d-%d", part[0], part[1]), "If-Range", `"`+text+`"`)
		if code != http.StatusPartialContent || string(body) != content[part[0]:part[1]+1] || header.Get("X-Content-SHA256") != text {
			t.Errorf("part %v = %d, %d bytes", part, code, len(body))
		}
	}
	if code, _, _ := plain.ask("GET", model+"/tools/"+jammyBinary, "", "", "Range", "bytes=2000000-"); code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a part behind the end = %d", code)
	}

	// Agents are told where to get it.
	m, agent := s.agent(s.Default, state.MachineSpec{})
	ctx := context.Background()
	if err := m.SetAgentVersion(ctx, "1.9.0-jammy-amd64"); err != nil {
		t.Fatal(err)
	}
	if err := s.Default.ModelConfig().SetAgentVersion(ctx, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	conn := s.as(modelPath(s.Default.ModelUUID()), agent)
	var found params.FindToolsResult
	must(t, conn, "Provisioner", 3, "FindTools", params.FindToolsParams{Number: "2.0.0", Major: -1, Minor: -1, Series: "jammy", Arch: "amd64"}, &found)
	want := "https://10.0.0.1:17070" + model + "/tools/" + jammyBinary
	if found.Error != nil || len(found.List) != 1 || found.List[0].URL != want || found.List[0].SHA256 != text || found.List[0].Size != 1500000 {
		t.Errorf("FindTools = %+v, want %s", found, want)
	}
	var tools params.ToolsResults
	must(t, conn, "Provisioner", 3, "Tools", entities("machine-0", "machine-1"), &tools)
	if r := tools.Results[0]; r.Error != nil || len(r.Tools) != 1 || r.Tools[0].URL != want || !r.DisableSSLHostnameVerification {
		t.Errorf("Tools = %+v, want %s", r, want)
	}
	if r := tools.Results[1]; r.Error == nil || r.Error.Code != "unauthorized access" || r.Tools != nil || r.DisableSSLHostnameVerification {
		t.Errorf("Tools of another machine = %+v, want it denied", r)
	}
}

func TestUploadsThatAreRefused(t *testing.T) {
	s := newSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	owner := s.person("owner", access.AddModel, access.Admin)
	model := "/model/" + s.Default.ModelUUID()
	good := model + "/tools?binaryVersion=" + jammyBinary
	tests := []struct {
		name, path string
		who        credentials
		status     int
		code       string
	}{
		{"nobody", good, credentials{}, 401, "no credentials provided"},
		{"wrong password", good, credentials{"user-admin", "wrong", ""}, 401, "unauthorized access"},
		{"owner of the model", good, owner, 401, "unauthorized access"},
		{"agent", good, agent, 401, "unauthorized access"},
		{"no version", model + "/tools", admin, 400, "bad request"},
		{"bad version", model + "/tools?binaryVersion=2.0", admin, 400, "bad request"},
		{"bad sum", good + "&sha256=abc", admin, 400, "bad request"},
		{"other sum", good + "&sha256=" + strings.Repeat("0", 64), admin, 400, "bad request"},
		{"unknown model", "/model/no-such/tools?binaryVersion=" + jammyBinary, admin, 404, "model not found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, header, body := s.request("POST", test.path, "bytes", test.who)
			var failure struct{ Error params.Error }
			if err := json.Unmarshal([]byte(body), &failure); err != nil || status != test.status || failure.Error.Code != test.code {
				t.Errorf("answer = %d %s, want %d with code %q", status, body, test.status, test.code)
			}
			if status == 401 && header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate beside 401")
			}
		})
	}
	for _, version := range []string{jammyBinary, "nonsense", "..%2f..%2fetc%2fpasswd"} {
		if status, _, body := s.request("GET", model+"/tools/"+version, "", admin); status != 404 || !strings.Contains(body, "not found") {
			t.Errorf("download of %s = %d %s, want 404", version, status, body)
		}
	}
}
