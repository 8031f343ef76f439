package site_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/usermanager"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// patience bounds every wait.
const patience = time.Minute

// connect connects the first user to the server at addr, in model default.
func connect(t *testing.T, dir site.Dir, addr string) *api.Conn {
	t.Helper()
	return connectAs(t, dir, addr, func(*api.Info) {})
}

// connectAs is connect with a change of who connects to what.
func connectAs(t *testing.T, dir site.Dir, addr string, change func(*api.Info)) *api.Conn {
	t.Helper()
	c, err := clientstore.New(dir.Client()).Read()
	if err != nil {
		t.Fatal(err)
	}
	info := api.Info{
		Addrs: []string{addr}, CACert: c.Controllers[c.Current].CACert,
		ModelUUID: c.Models[c.Current].Models["admin/default"].UUID,
		Tag:       "user-" + c.Accounts[c.Current].User, Password: c.Accounts[c.Current].Password,
	}
	change(&info)
	conn, err := api.Open(t.Context(), info, api.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is under way
	return conn
}

// exported writes a site's join file and returns its name.
func exported(t *testing.T, dir site.Dir) string {
	t.Helper()
	o := site.ExportOptions{Dir: dir, Out: filepath.Join(t.TempDir(), "join"), Passphrase: passphrase}
	if err := site.ExportJoin(o); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(o.Out); err != nil || info.Mode() != 0o600 {
		t.Errorf("the join file has mode %v, %v, want 0600", info.Mode(), err)
	}
	return o.Out
}

// eventually waits until a server says what others can be reached at.
func eventually(t *testing.T, dir site.Dir, through string, want ...string) {
	t.Helper()
	var got []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		conn := connect(t, dir, through)
		got = conn.Addrs()
		slices.Sort(got)
		slices.Sort(want)
		if slices.Equal(got, want) {
			return
		}
		_ = conn.Close() // it answers no more
	}
	t.Errorf("%s says that servers are at %q, want %q", through, got, want)
}

func TestTwoControllersServeOneSite(t *testing.T) {
	_, url := double(t, mongotest.Config{})
	o := options(t)
	o.Store.URL = url
	o.ModelConfig = map[string]any{"rack-url": "http://127.0.0.1:9", "rack-token": "none"} // nobody asks it
	if err := site.Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	first := serve(t, o.Dir)
	joined := newDir(t)
	err := site.Join(t.Context(), site.JoinOptions{
		Dir: joined, Store: o.Store, From: exported(t, o.Dir), Passphrase: passphrase, Listen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	second := serve(t, joined)
	eventually(t, o.Dir, first.Addr(), first.Addr(), second.Addr())
	eventually(t, o.Dir, second.Addr(), first.Addr(), second.Addr())

	// A watcher on one sees what is written through the other.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := client.New(connect(t, o.Dir, second.Addr())).WatchAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	added, err := client.New(connect(t, o.Dir, first.Addr())).AddMachines(ctx, params.AddMachineParams{Jobs: []string{"JobHostUnits"}})
	if err != nil || added[0].Err != nil {
		t.Fatalf("AddMachines = %v, %v", added, err)
	}
	for seen := false; !seen; {
		select {
		case changes, ok := <-w.Changes():
			if !ok {
				t.Fatalf("the watcher ended: %v", w.Wait())
			}
			for _, c := range changes {
				m, ok := c.Entity.(*params.MachineUpdate)
				seen = seen || ok && m.ID == added[0].Value
			}
		case <-ctx.Done():
			t.Fatal("the other server's write was not seen")
		}
	}
	w.Kill()

	end(t, second)
	eventually(t, o.Dir, first.Addr(), first.Addr())
	for _, name := range []string{joined.AgentFile(), filepath.Join(joined.Client(), "accounts.yaml")} {
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("the controller that joined has %s (%v)", name, err)
		}
	}
	again := serve(t, joined)
	eventually(t, o.Dir, first.Addr(), first.Addr(), again.Addr())
}

// everything returns every document of a database as one text.
func everything(t *testing.T, url string) string {
	t.Helper()
	db, err := mongo.Open(t.Context(), mongo.Config{URL: url, Collections: state.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var all strings.Builder
	for _, c := range state.Collections() {
		page, err := db.List(t.Context(), store.Query{Collection: c.Name})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Docs {
			fmt.Fprintf(&all, "%s %s %s\n", d.Collection, d.ID, d.Data)
		}
	}
	return all.String()
}

func TestADisabledUserIsCutOffEverywhere(t *testing.T) {
	_, url := double(t, mongotest.Config{})
	o := options(t)
	o.Store.URL = url
	if err := site.Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	joined := newDir(t)
	err := site.Join(t.Context(), site.JoinOptions{
		Dir: joined, Store: o.Store, From: exported(t, o.Dir), Passphrase: passphrase, Listen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	first, second := serve(t, o.Dir), serve(t, joined)
	users := usermanager.New(connectAs(t, o.Dir, first.Addr(), func(i *api.Info) { i.ModelUUID = "" }))
	if _, err := users.Add(t.Context(), params.AddUser{UserName: "bob", Password: "bob-password"}); err != nil {
		t.Fatal(err)
	}
	bob := connectAs(t, o.Dir, second.Addr(), func(i *api.Info) { i.ModelUUID, i.Tag, i.Password = "", "user-bob", "bob-password" })
	stays := connect(t, o.Dir, second.Addr())
	if err := users.Disable(t.Context(), "user-bob"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-bob.Broken():
	case <-time.After(patience):
		t.Error("a user who was disabled through one controller is still connected to the other")
	}
	select {
	case <-stays.Broken():
		t.Error("somebody else was cut off, too")
	default:
	}
}

func TestNoKeyIsInTheStore(t *testing.T) {
	_, url := double(t, mongotest.Config{})
	o := options(t)
	o.Store.URL = url
	if err := site.Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	end(t, serve(t, o.Dir))
	key, err := os.ReadFile(filepath.Join(string(o.Dir), "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(string(key), "\n")[1]
	if dump := everything(t, url); !strings.Contains(dump, "admin") || strings.Contains(dump, line) || strings.Contains(dump, "PRIVATE KEY") {
		t.Error("the store holds the authority's key, or nothing at all")
	}
}

func TestJoinRefusesInOneLine(t *testing.T) {
	_, url := double(t, mongotest.Config{})
	o := options(t)
	o.Store.URL = url
	if err := site.Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	file := exported(t, o.Dir)
	_, empty := double(t, mongotest.Config{})
	_, otherURL := double(t, mongotest.Config{})
	other := options(t)
	other.Store.URL = otherURL
	if err := site.Bootstrap(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	embedded := bootstrap(t)
	join := func(change func(*site.JoinOptions)) func() error {
		return func() error {
			j := site.JoinOptions{Dir: newDir(t), Store: o.Store, From: file, Passphrase: passphrase, Listen: "127.0.0.1:0"}
			change(&j)
			return site.Join(t.Context(), j)
		}
	}
	export := func(e site.ExportOptions) func() error {
		return func() error { return site.ExportJoin(e) }
	}
	out := filepath.Join(t.TempDir(), "out")
	for name, c := range map[string]struct {
		do   func() error
		text string
	}{
		"export of an embedded store": {export(site.ExportOptions{Dir: embedded, Out: out, Passphrase: passphrase}), "controllerd migrate"},
		"export in the clear":         {export(site.ExportOptions{Dir: o.Dir, Out: out}), "--passphrase-file"},
		"export over a file":          {export(site.ExportOptions{Dir: o.Dir, Out: file, Passphrase: passphrase}), "is there already"},
		"no store":                    {join(func(j *site.JoinOptions) { j.Store.URL = "" }), "--store"},
		"no file":                     {join(func(j *site.JoinOptions) { j.From = "" }), "--join-file"},
		"no passphrase":               {join(func(j *site.JoinOptions) { j.Passphrase = nil }), "--passphrase-file"},
		"wrong passphrase":            {join(func(j *site.JoinOptions) { j.Passphrase = []byte("wrong") }), "not the one"},
		"no address":                  {join(func(j *site.JoinOptions) { j.Listen = "" }), "HOST:PORT"},
		"a backup":                    {join(func(j *site.JoinOptions) { j.From = backup(t, embedded, true) }), "and no join file"},
		"an empty database":           {join(func(j *site.JoinOptions) { j.Store.URL = empty }), "holds no site"},
		"another site's database":     {join(func(j *site.JoinOptions) { j.Store.URL = otherURL }), "holds another site"},
		"over a site":                 {join(func(j *site.JoinOptions) { j.Dir = embedded }), "holds a site already"},
	} {
		err := c.do()
		if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.text)
		}
	}
}
