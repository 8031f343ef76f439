package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/logs"
	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/internal/logfile"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/worker"
)

// logSite is a site that keeps logs.
type logSite struct {
	*site
	logs *logfile.Store
	ca   string
}

func newLogSite(t *testing.T) *logSite {
	t.Helper()
	s := &logSite{}
	var err error
	if s.logs, err = logfile.Open(logfile.Options{Dir: filepath.Join(t.TempDir(), "logs")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.logs.Close(); err != nil {
			t.Error(err)
		}
	})
	s.site = newSite(t, func(c *apiserver.Config) { c.Logs, s.ca = s.logs, c.CACert })
	return s
}

func (s *logSite) info(model string, who credentials) api.Info {
	return api.Info{Addrs: []string{s.addr}, CACert: s.ca, ModelUUID: model, Tag: who.tag, Password: params.Secret(who.password), Nonce: who.nonce}
}

func always(info api.Info) func() (api.Info, error) {
	return func() (api.Info, error) { return info, nil }
}

// read returns what a query that has an end gives, or the error.
func (s *logSite) read(model string, who credentials, q logs.Query) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out []string
	err := logs.Read(ctx, s.info(model, who), api.DialOptions{}, q, func(r logs.Record) error {
		out = append(out, r.Entity+":"+r.Message)
		return nil
	})
	if err != nil {
		out = append(out, err.Error())
	}
	return strings.Join(out, " ")
}

func TestLogsOfAgentsAreKeptAndRead(t *testing.T) {
	s := newLogSite(t)
	model := s.Default.ModelUUID()
	_, agent := s.agent(s.Default, state.MachineSpec{})
	w := logs.NewWriter()
	for _, e := range []loggo.Entry{
		{Level: loggo.INFO, Module: "a.b", Filename: "/src/x.go", Line: 7, Message: "one"},
		{Level: loggo.DEBUG, Module: "slipway.rpc", Message: "left out"},
		{Level: loggo.ERROR, Module: "c", Message: "two \xff"},
	} {
		w.Write(e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, always(s.info(model, agent)), api.DialOptions{}, worker.Backoff{})
	}()
	defer func() { cancel(); <-ended }()
	if got := s.read(model, admin, logs.Query{Replay: true, MaxLines: 2}); got != "machine-0:one machine-0:two \uFFFD" {
		t.Errorf("log = %q", got)
	}
	// It goes on after the reading of what there was.
	w.Write(loggo.Entry{Level: loggo.INFO, Module: "a", Message: "three"})
	if got := s.read(model, admin, logs.Query{Backlog: 1, IncludeModule: []string{"a"}, ExcludeModule: []string{"a.b"}, MaxLines: 1}); got != "machine-0:three" {
		t.Errorf("log = %q", got)
	}
	if got := s.read(model, admin, logs.Query{Replay: true, NoTail: true, Level: "ERROR"}); got != "machine-0:two \uFFFD" {
		t.Errorf("errors = %q", got)
	}
	if got := s.read(s.ControllerModelUUID(), admin, logs.Query{Replay: true, NoTail: true}); got != "" {
		t.Errorf("log of another model = %q", got)
	}
}

func TestWhoMayReadLogs(t *testing.T) {
	s := newLogSite(t)
	model, controller := s.Default.ModelUUID(), s.ControllerModelUUID()
	_, agent := s.agent(s.Default, state.MachineSpec{})
	for _, m := range []string{model, controller} {
		if err := s.logs.Append(m, logfile.Record{Entity: "e", Message: "secret"}); err != nil {
			t.Fatal(err)
		}
	}
	reader, writer := s.person("reader", access.Login, access.Read), s.person("writer", access.Login, access.Write)
	owner, stranger := s.person("owner", access.Login, access.Admin), s.person("stranger", access.Login, "")
	const secret, denied, bad = "e:secret", "permission denied", "invalid entity name or password"
	tests := []struct {
		model string
		who   credentials
		want  string
	}{
		{model, admin, secret}, {model, owner, secret},
		{model, writer, denied}, {model, reader, denied}, {model, stranger, denied}, {model, agent, denied}, {model, manager, denied},
		{controller, admin, secret}, {"", admin, secret}, {controller, owner, denied}, {"", owner, denied}, {controller, manager, denied},
		{model, credentials{"user-admin", "wrong", ""}, bad}, {model, credentials{"user-nobody", "x", ""}, bad},
		{"0d0d0d0d-0000-4000-8000-000000000000", admin, `unknown model: "0d0d0d0d-0000-4000-8000-000000000000"`},
	}
	for _, test := range tests {
		if got := s.read(test.model, test.who, logs.Query{Replay: true, NoTail: true}); got != test.want {
			t.Errorf("log of model %q for %s = %q, want %q", test.model, test.who.tag, got, test.want)
		}
	}
}

func TestWhoMaySendLogs(t *testing.T) {
	s := newLogSite(t)
	model := s.Default.ModelUUID()
	_, agent := s.agent(s.Default, state.MachineSpec{})
	version := url.Values{"jujuclientversion": {"2.0.0"}}
	old := agent
	old.nonce = "another"
	tests := []struct {
		who   credentials
		query url.Values
		want  string
	}{
		{agent, version, ""}, {manager, version, ""},
		{agent, nil, `missing "jujuclientversion" in URL query`},
		{admin, version, "permission denied"},
		{old, version, "machine 0 not provisioned"},
		{credentials{agent.tag, "wrong", agent.nonce}, version, "invalid entity name or password"},
	}
	for _, test := range tests {
		stream, err := api.OpenStream(t.Context(), s.info(model, test.who), api.DialOptions{}, "logsink", test.query)
		if err == nil {
			_ = stream.Close()
		}
		if got := fmt.Sprint(err); got != test.want && !(err == nil && test.want == "") {
			t.Errorf("logsink for %s with %v = %v, want %q", test.who.tag, test.query, err, test.want)
		}
	}
}

func TestLogQueriesAreChecked(t *testing.T) {
	s := newLogSite(t)
	for query, want := range map[string]string{
		"maxLines=x":  `maxLines value "x" is not a valid unsigned number`,
		"maxLines=-1": `maxLines value "-1" is not a valid unsigned number`,
		"backlog=y":   `backlog value "y" is not a valid unsigned number`,
		"replay=z":    `replay value "z" is not a valid boolean`,
		"noTail=z":    `noTail value "z" is not a valid boolean`,
		"level=LOUD":  `level value "LOUD" is not one of "TRACE", "DEBUG", "INFO", "WARNING", "ERROR"`,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.OpenStream(t.Context(), s.info(s.Default.ModelUUID(), admin), api.DialOptions{}, "log", values)
		if err == nil || err.Error() != want {
			t.Errorf("log with %s = %v, want %s", query, err, want)
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	s := newLogSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	reader, err := api.OpenStream(t.Context(), s.info(s.Default.ModelUUID(), admin), api.DialOptions{}, "log", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	sender, err := api.OpenStream(t.Context(), s.info(s.Default.ModelUUID(), agent), api.DialOptions{}, "logsink", url.Values{"jujuclientversion": {"x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	s.server.Kill()
	if err := s.server.Wait(); err != nil {
		t.Error(err)
	}
	if err := reader.Receive(nil); err != io.EOF {
		t.Errorf("Receive after the server's end = %v, want EOF", err)
	}
}

func TestWriterKeepsWhatItCannotSend(t *testing.T) {
	s := newLogSite(t)
	model := s.Default.ModelUUID()
	_, agent := s.agent(s.Default, state.MachineSpec{})
	w := logs.NewWriter()
	start := time.Now()
	for i := range 5000 {
		w.Write(loggo.Entry{Level: loggo.INFO, Module: "m", Message: fmt.Sprint(i)})
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("writing without a connection took %v", took)
	}
	// The first address is nobody's.
	info := s.info(model, agent)
	info.Addrs = append([]string{"127.0.0.1:1"}, info.Addrs...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, always(info), api.DialOptions{}, worker.Backoff{Min: time.Millisecond})
	}()
	defer func() { cancel(); <-ended }()
	got := strings.Fields(s.read(model, admin, logs.Query{Replay: true, MaxLines: 4097}))
	if len(got) < 4097 || got[4095] != "machine-0:4095" || got[4096] != "machine-0:904" {
		t.Errorf("%d words of log, ending %v", len(got), got[max(0, len(got)-12):])
	}
}

func TestWriterGoesOnAfterARefusal(t *testing.T) {
	s := newLogSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	wrong := s.info(s.Default.ModelUUID(), agent)
	wrong.Password = "wrong"
	w := logs.NewWriter()
	w.Write(loggo.Entry{Level: loggo.INFO, Module: "m", Message: "kept"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w.Run(ctx, always(wrong), api.DialOptions{}, worker.Backoff{Min: time.Millisecond})
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error("Run ended before its time")
	}
	ctx, cancel = context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, always(s.info(s.Default.ModelUUID(), agent)), api.DialOptions{}, worker.Backoff{})
	}()
	defer func() { cancel(); <-ended }()
	if got := s.read(s.Default.ModelUUID(), admin, logs.Query{Replay: true, MaxLines: 1}); got != "machine-0:kept" {
		t.Errorf("log = %q", got)
	}
}
