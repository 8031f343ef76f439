package install_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/install"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

var ctx = context.Background()

const uid = "6f1f1d1c-8f5a-4c0e-9b7e-1b2f3a4c5d6e"

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// open returns the orders of a new site, with what it is kept in.
func open(t *testing.T) (*install.Installs, *statetest.Site, store.Store, *clock) {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	db := storetest.New(t, state.Collections())
	site := statetest.OpenWith(t, statetest.Config{Store: db, Options: state.Options{HostKeys: hostkey.New(), Now: c.Now}})
	return install.New(site.SiteDocs()), site, db, c
}

// order is one that is in order.
func order() install.Order {
	return install.Order{
		Purpose: install.PurposeInstall, Host: uid, Name: "rack1-u7",
		Image:     metal3v1alpha1.Image{URL: "https://images.test/i", Checksum: strings.Repeat("ab", 32), ChecksumType: metal3v1alpha1.SHA256},
		RootHints: &metal3v1alpha1.RootDeviceHints{SerialNumber: "S1", MinSizeGigabytes: 10},
		Data: install.Data{User: "#cloud-config\npassword: user-secret", Network: "version: 2",
			Meta: "local-hostname: node-7\ninstance-id: i-7\nrole: db\ninstaller:\n  files:\n  - path: /etc/marker\n    content: file-secret\n  dns: [192.0.2.53]\n"},
	}
}

func start(t *testing.T, is *install.Installs, o install.Order) install.Install {
	t.Helper()
	got, err := is.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// machine is an installer that boots: it reads its medium and makes a key.
type machine struct {
	boot    config.Boot
	private ed25519.PrivateKey
}

func boot(t *testing.T, is *install.Installs, medium config.Secret) *machine {
	t.Helper()
	b, err := is.Medium(ctx, uid, medium)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{boot: b, private: key(t)}
}

func key(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func (m *machine) exchange() config.Exchange {
	e := config.Exchange{Host: m.boot.Host, Boot: m.boot.Number, Token: m.boot.Token, PublicKey: m.private.Public().(ed25519.PublicKey)}
	e.Signature = ed25519.Sign(m.private, e.Message())
	return e
}

func session(t *testing.T, is *install.Installs, m *machine) *install.Session {
	t.Helper()
	c, err := is.Exchange(ctx, m.exchange())
	if err != nil {
		t.Fatal(err)
	}
	s, err := is.Authenticate(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func one(t *testing.T, is *install.Installs) install.Install {
	t.Helper()
	all, err := is.Get(ctx, []string{uid, "no-such-host"}, true)
	if err != nil || len(all) != 1 {
		t.Fatalf("Get = %v, %v, want one", all, err)
	}
	return all[0]
}

func wantErr(t *testing.T, what string, err error, want errors.ConstError) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestAnInstallation(t *testing.T) {
	is, _, _, clock := open(t)
	first := start(t, is, order())
	if first.Number != 1 || first.Tries != 1 || first.Phase != install.PhaseWaiting || first.Medium == "" {
		t.Fatalf("Start = %+v", first)
	}
	if err := is.Mark(ctx, uid, install.MarkBooted); err != nil {
		t.Fatal(err)
	}
	m := boot(t, is, first.Medium)
	s := session(t, is, m)
	c, err := s.Config(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "rack1-u7" || c.Hostname != "node-7" || c.Mode != config.ModeProvision || c.Image.URLs[0] != "https://images.test/i" ||
		c.Image.Checksum != "sha256:"+strings.Repeat("ab", 32) || c.RootDevice.Serial != "S1" || c.RootDevice.MinSizeGB != 10 ||
		c.CloudInit.InstanceID != "i-7" || c.CloudInit.MetaData["role"] != "db" || len(c.CloudInit.MetaData) != 1 ||
		!strings.Contains(string(c.CloudInit.UserData), "user-secret") || c.Files[0].Content != "file-secret" || c.DNS[0] != "192.0.2.53" {
		t.Errorf("config: %v", c)
	}
	for _, st := range []config.Status{
		{State: config.StateInit}, {State: config.StateStep, Step: "wipe-disk", Number: 8, Total: 37, Result: "done", Message: "one\ntwo\x1b[31m"},
	} {
		if err := s.Report(ctx, st); err != nil {
			t.Fatal(err)
		}
	}
	if got := one(t, is); got.Phase != install.PhaseRunning || got.Step != "wipe-disk (8 of 37) done" || got.Steps[1].Message != "one two\ufffd[31m" {
		t.Errorf("running: %+v", got)
	}
	inventory := `{"arch":"amd64","cpus":4,"memory-mib":2048,"vendor":"Acme","disks":[{"path":"/dev/vda","serial":"S1","size":5},{"path":"/dev/sr0","boot-medium":true}],"ports":[{"name":"eth0","mac":"52:54:00:AA:00:01","speed-mbps":10000}]}`
	for k, text := range map[install.Kind]string{install.KindInventory: inventory, install.KindFirmware: `{"bios":"1.2"}`, install.KindHealth: `[]`} {
		if err := s.Keep(ctx, k, json.RawMessage(text)); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, "inventory that is no JSON", s.Keep(ctx, install.KindInventory, json.RawMessage(`{`)), errors.NotValid)
	clock.advance(time.Minute)
	if err := s.Heartbeat(ctx); err != nil {
		t.Fatal(err)
	}
	heard := clock.Now()
	clock.advance(10 * time.Second)
	if err := s.Heartbeat(ctx); err != nil {
		t.Fatal(err)
	}
	if got := one(t, is); !got.Heard.Equal(heard) {
		t.Errorf("heard at %v, want %v: the second heartbeat came soon and is not written", got.Heard, heard)
	}
	success := config.Status{State: config.StateSuccess, Facts: json.RawMessage(`{"disk":{"serial":"S1"}}`)}
	for range 2 { // the reply to the first may have got lost
		if err := s.Report(ctx, success); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, "a step after the end", s.Report(ctx, config.Status{State: config.StateStep}), install.ErrOver)
	wantErr(t, "a heartbeat after the end", s.Heartbeat(ctx), install.ErrOver)
	if err := s.AddLog(ctx, []string{"goodbye"}); err != nil {
		t.Errorf("log after the end: %v", err)
	}
	got := one(t, is)
	if got.Phase != install.PhaseDone || got.Disk.Serial != "S1" || got.Booted.IsZero() || got.Boots[0].Phase != install.PhaseDone {
		t.Errorf("done: %+v", got)
	}
	d := install.Details(got.Inventory, got.Firmware)
	if d == nil || d.CPU.Count != 4 || d.CPU.Arch != "x86_64" || len(d.Storage) != 1 || d.NIC[0].MAC != "52:54:00:aa:00:01" || d.NIC[0].SpeedGbps != 10 || d.Firmware.BIOS.Version != "1.2" {
		t.Errorf("details: %+v", d)
	}

	// The wipe works on the recorded disk, and needs none of the data.
	wipe := start(t, is, install.Order{Purpose: install.PurposeWipe, Soft: true, Host: uid, Name: "rack1-u7", KeepDisks: []string{"S2"}})
	s = session(t, is, boot(t, is, wipe.Medium))
	if c, err = s.Config(ctx); err != nil || c.Mode != config.ModeSoftDeprovision || c.Recorded.Serial != "S1" || c.KeepDisks[0] != "S2" || c.CloudInit != nil {
		t.Errorf("config of the wipe: %v, %v", c, err)
	}
	if wipe.Number != 2 || wipe.Tries != 1 {
		t.Errorf("the wipe's boot is number %d, try %d", wipe.Number, wipe.Tries)
	}
}

func TestWhoIsTurnedAway(t *testing.T) {
	is, _, _, clock := open(t)
	first := start(t, is, order())
	wantCode := func(what string, err error, want errors.ConstError) { t.Helper(); wantErr(t, what, err, want) }
	for what, c := range map[string]config.Secret{"nothing": "", "no host": "abc", "no such host": "x.y", "no credential": uid + ".", "a guess": uid + ".guess"} {
		_, err := is.Authenticate(ctx, c)
		wantCode("credential: "+what, err, install.ErrUnknown)
	}
	_, err := is.Medium(ctx, uid, "guess")
	wantCode("medium: a guess", err, install.ErrUnknown)
	_, err = is.Medium(ctx, "other", first.Medium)
	wantCode("medium: of another host", err, install.ErrUnknown)
	m := boot(t, is, first.Medium)
	change := func(f func(*config.Exchange)) config.Exchange {
		e := m.exchange()
		f(&e)
		e.Signature = ed25519.Sign(m.private, e.Message())
		return e
	}
	for what, e := range map[string]config.Exchange{
		"wrong token":   change(func(e *config.Exchange) { e.Token = "guess" }),
		"other host":    change(func(e *config.Exchange) { e.Host = "other" }),
		"other boot":    change(func(e *config.Exchange) { e.Boot = 2 }),
		"no signature":  {Host: uid, Boot: 1, Token: m.boot.Token, PublicKey: m.exchange().PublicKey},
		"no key":        {Host: uid, Boot: 1, Token: m.boot.Token},
		"medium itself": change(func(e *config.Exchange) { e.Token = first.Medium }),
	} {
		_, err := is.Exchange(ctx, e)
		wantCode(what, err, install.ErrUnknown)
	}
	clock.advance(install.MediumLife + time.Second)
	_, err = is.Medium(ctx, uid, first.Medium)
	wantCode("medium: after an hour", err, install.ErrOver)
	_, err = is.Exchange(ctx, m.exchange())
	wantCode("token: after an hour", err, install.ErrOver)
	if got := one(t, is); got.Phase != install.PhaseWaiting {
		t.Errorf("phase %s after what was refused", got.Phase)
	}
}

func TestAnExchangeMayBeRepeatedByTheSameKeyOnly(t *testing.T) {
	is, _, _, clock := open(t)
	first := start(t, is, order())
	m := boot(t, is, first.Medium)
	credential, err := is.Exchange(ctx, m.exchange())
	if err != nil {
		t.Fatal(err)
	}
	_, err = is.Medium(ctx, uid, first.Medium)
	wantErr(t, "medium: after its token was used", err, install.ErrOver)
	clock.advance(install.RepeatWindow)
	if again, err := is.Exchange(ctx, m.exchange()); err != nil || again != credential {
		t.Errorf("the repeated exchange gives another credential, %v", err)
	}
	clock.advance(time.Second)
	_, err = is.Exchange(ctx, m.exchange())
	wantErr(t, "the same key, too late", err, install.ErrOver)
	s, err := is.Authenticate(ctx, credential)
	if err != nil {
		t.Fatalf("the credential is revoked by its own key: %v", err)
	}

	thief := &machine{boot: m.boot, private: key(t)}
	_, err = is.Exchange(ctx, thief.exchange())
	wantErr(t, "another key", err, install.ErrUsedTwice)
	_, err = is.Authenticate(ctx, credential)
	wantErr(t, "the first credential", err, install.ErrUnknown)
	_, err = s.Config(ctx)
	wantErr(t, "a session of it", err, install.ErrOver)
	wantErr(t, "a report of it", s.Report(ctx, config.Status{State: config.StateSuccess}), install.ErrOver)
	wantErr(t, "a log of it", s.AddLog(ctx, []string{"x"}), install.ErrOver)
	if got := one(t, is); got.Phase != install.PhaseFailed || !strings.HasPrefix(got.Message, "installer token used twice") {
		t.Errorf("order: %s, %q", got.Phase, got.Message)
	}
	_, err = is.Exchange(ctx, m.exchange())
	wantErr(t, "the first key afterwards", err, install.ErrOver)
}

func TestASilentMachineIsBootedAnew(t *testing.T) {
	is, _, _, _ := open(t)
	first := start(t, is, order())
	if err := is.Mark(ctx, uid, install.MarkBooted); err != nil {
		t.Fatal(err)
	}
	m := boot(t, is, first.Medium)
	old := session(t, is, m)
	if err := is.Renew(ctx, uid, 1, "silent"); err != nil {
		t.Fatal(err)
	}
	second := one(t, is)
	if second.Number != 2 || second.Tries != 2 || second.Phase != install.PhaseWaiting || !second.Booted.IsZero() || second.Medium == first.Medium ||
		second.Boots[0].Message != "silent" || second.Boots[0].Phase != install.PhaseFailed {
		t.Errorf("after Renew: %+v", second)
	}
	if err := is.Renew(ctx, uid, 1, "silent"); err != nil || one(t, is).Number != 2 { // two who saw the same
		t.Errorf("a second Renew of the same boot made another one, %v", err)
	}
	wantErr(t, "report of the old boot", old.Report(ctx, config.Status{State: config.StateSuccess}), install.ErrOver)
	_, err := is.Exchange(ctx, m.exchange())
	wantErr(t, "token of the old boot", err, install.ErrUnknown)
	_, err = is.Medium(ctx, uid, first.Medium)
	wantErr(t, "medium of the old boot", err, install.ErrUnknown)
	s := session(t, is, boot(t, is, second.Medium))
	if c, err := s.Config(ctx); err != nil || c.Files[0].Content != "file-secret" {
		t.Errorf("the second boot has another order: %v, %v", c, err)
	}
	if err := s.Report(ctx, config.Status{State: config.StateError, Step: "stream-image", Message: "image is not what was ordered"}); err != nil {
		t.Fatal(err)
	}
	if err := is.Renew(ctx, uid, 2, "silent"); err != nil {
		t.Fatal(err)
	}
	if got := one(t, is); got.Phase != install.PhaseFailed || got.Message != "step stream-image: image is not what was ordered" || got.Number != 2 {
		t.Errorf("an order that failed: %+v", got)
	}
}

func TestOrdersThatCannotBeCarriedOut(t *testing.T) {
	is, _, _, _ := open(t)
	for _, c := range []struct {
		name   string
		change func(*install.Order)
		want   string
	}{
		{"no checksum", func(o *install.Order) { o.Image.Checksum = "" }, "neither checksum nor signature"},
		{"md5", func(o *install.Order) { o.Image.ChecksumType = metal3v1alpha1.MD5 }, "give a sha256 or sha512"},
		{"checksum by URL", func(o *install.Order) { o.Image.Checksum = "https://images.test/sums" }, "give the checksum itself"},
		{"live ISO", func(o *install.Order) { live := metal3v1alpha1.LiveISO; o.Image.DiskFormat = &live }, "live ISO"},
		{"hostname", func(o *install.Order) { o.Data.Meta = "local-hostname: a b" }, `hostname "a b"`},
		{"no map", func(o *install.Order) { o.Data.Meta = "[top-secret" }, "no YAML map"},
		{"unknown setting", func(o *install.Order) { o.Data.Meta = "installer: {colour: top-secret}" }, `unknown field "colour"`},
		{"setting of another type", func(o *install.Order) { o.Data.Meta = "installer: {dns: top-secret}" }, `"dns" is no []string`},
		{"network", func(o *install.Order) { o.Network.DNS = []string{"x"} }, `name server "x"`},
		{"purpose", func(o *install.Order) { o.Purpose = "dance" }, `order "dance"`},
	} {
		o := order()
		c.change(&o)
		_, err := is.Start(ctx, o)
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "top-secret") {
			t.Errorf("%s: %v, want not valid with %q", c.name, err, c.want)
		}
	}
	if all, err := is.Get(ctx, []string{uid}, true); err != nil || len(all) != 0 {
		t.Errorf("an order that was refused is there: %v, %v", all, err)
	}
	wantErr(t, "mark without an order", is.Mark(ctx, uid, install.MarkBooted), errors.NotFound)
	wantErr(t, "renewal without an order", is.Renew(ctx, uid, 1, "r"), errors.NotFound)
	start(t, is, order())
	wantErr(t, "unknown mark", is.Mark(ctx, uid, "x"), errors.NotValid)
}

func TestTheDataOfAMachineIsForgottenWithTheEndOfItsRun(t *testing.T) {
	is, site, db, _ := open(t)
	session := session(t, is, boot(t, is, start(t, is, order()).Medium))
	if err := session.Report(ctx, config.Status{State: config.StateError, Message: "no"}); err != nil {
		t.Fatal(err)
	}
	d, err := db.Get(ctx, store.Key{Collection: state.InstallsCollection, ID: "_:" + uid})
	if err != nil {
		t.Fatal(err)
	}
	var sealed struct{ Sealed string }
	if err := json.Unmarshal(d.Data, &sealed); err != nil {
		t.Fatal(err)
	}
	text, err := site.SiteDocs().Keys().Open("install "+uid, sealed.Sealed)
	if err != nil || strings.Contains(string(text), "secret") || strings.Contains(string(text), "credential") || one(t, is).Medium == "" {
		t.Errorf("sealed after the end: %s, %v", text, err)
	}
}

func TestNothingSecretIsStoredInTheClear(t *testing.T) {
	is, _, db, _ := open(t)
	first := start(t, is, order())
	m := boot(t, is, first.Medium)
	credential, err := is.Exchange(ctx, m.exchange())
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{Collection: state.InstallsCollection, ID: "_:" + uid}
	d, err := db.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]string{"medium": string(first.Medium), "token": string(m.boot.Token), "credential": string(credential), "user data": "user-secret", "file": "file-secret"} {
		if strings.Contains(string(d.Data), s) {
			t.Errorf("the store holds the %s", what)
		}
	}
	redacted, err := state.Redact(key, d.Data, nil)
	if err != nil || strings.Contains(string(redacted), "sealed") || strings.Contains(string(redacted), "-hash") {
		t.Errorf("Redact leaves %s, %v", redacted, err)
	}
	if text := fmt.Sprintf("%v %+v %#v", first, order(), order()); strings.Contains(text, "secret") || strings.Contains(text, string(first.Medium)) {
		t.Errorf("printed: %s", text)
	}
}

func TestLogsAreBoundedAndFollowed(t *testing.T) {
	is, _, _, _ := open(t)
	for range 9 {
		start(t, is, order())
		if err := session(t, is, boot(t, is, one(t, is).Medium)).AddLog(ctx, []string{"  hello\tworld"}); err != nil {
			t.Fatal(err)
		}
	}
	got := one(t, is)
	if len(got.Boots) != 6 || got.Boots[0].Number != 4 {
		t.Errorf("boots remembered: %+v", got.Boots)
	}
	for n, want := range map[int]int{3: 0, 4: 1, 9: 1} {
		if l, err := is.Log(ctx, uid, n); err != nil || l.Len() != want {
			t.Errorf("log of boot %d has %d lines, want %d (%v)", n, l.Len(), want, err)
		}
	}
	start(t, is, order())
	s := session(t, is, boot(t, is, one(t, is).Medium))
	w := is.WatchLog(uid, 10)
	defer func() { w.Kill(); _ = w.Wait() }()
	<-w.Changes()
	const lines = 3000
	for i := range lines / 100 {
		var batch []string
		for j := range 100 {
			batch = append(batch, fmt.Sprintf("%d %s", i*100+j, strings.Repeat("x", 200)))
		}
		if err := s.AddLog(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-w.Changes():
	case <-time.After(time.Minute):
		t.Fatal("the watcher of the log did not fire")
	}
	l, err := is.Log(ctx, uid, 10)
	if err != nil || l.Len() != lines || len(l.Head) < 100 || len(l.Tail) < 100 || l.Dropped == 0 {
		t.Fatalf("log of %d lines: %d + %d + %d, %v", l.Len(), len(l.Head), l.Dropped, len(l.Tail), err)
	}
	if all := l.After(0); !strings.HasPrefix(all[0], "0 ") || !strings.HasPrefix(all[len(all)-1], "2999 ") || len(all) != len(l.Head)+1+len(l.Tail) {
		t.Errorf("After(0) has %d lines from %.10q to %.10q", len(all), all[0], all[len(all)-1])
	}
	if rest := l.After(lines - 2); len(rest) != 2 || !strings.HasPrefix(rest[0], "2998 ") {
		t.Errorf("After = %.20q", rest)
	}
	if rest := l.After(lines + 5); len(rest) != 0 {
		t.Errorf("After the end = %q", rest)
	}
	if err := s.AddLog(ctx, []string{strings.Repeat("y", 10000)}); err != nil {
		t.Fatal(err)
	}
	if l, _ = is.Log(ctx, uid, 10); len(l.After(lines)[0]) > 5000 {
		t.Error("a line is not cut")
	}
	if err := is.Cancel(ctx, uid); err != nil {
		t.Fatal(err)
	}
	if l, err = is.Log(ctx, uid, 10); err != nil || l.Len() != 0 {
		t.Errorf("the log outlives its host: %d lines, %v", l.Len(), err)
	}
	if err := is.Cancel(ctx, uid); err != nil {
		t.Errorf("a second Cancel: %v", err)
	}
}

func TestOrdersAreMadeUnderTheSitesLeaseOnly(t *testing.T) {
	is, site, _, _ := open(t)
	start(t, is, order())
	fenced := install.New(site.Management.WithFence(state.NewFence("0")).SiteDocs())
	_, err := fenced.Start(ctx, order())
	for what, err := range map[string]error{"start": err, "renew": fenced.Renew(ctx, uid, 1, "r"), "mark": fenced.Mark(ctx, uid, install.MarkBooted), "cancel": fenced.Cancel(ctx, uid)} {
		if !errors.Is(err, kind.LeaseDenied) {
			t.Errorf("%s without the lease: %v", what, err)
		}
	}
}

// stored returns how many bytes a document has.
func stored(t *testing.T, db store.Store, collection, id string) int {
	t.Helper()
	d, err := db.Get(ctx, store.Key{Collection: collection, ID: "_:" + id})
	if err != nil {
		t.Fatal(err)
	}
	return len(d.Data)
}

func TestAHostileMachineTakesLittleRoom(t *testing.T) {
	is, _, db, _ := open(t)
	s := session(t, is, boot(t, is, start(t, is, order()).Medium))
	long := strings.Repeat("x\x1b\u009b", 20_000)
	for n := range 20 {
		st := config.Status{State: config.StateStep, Step: long, Result: long, Message: long, Number: n, Facts: json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)}
		if err := s.Report(ctx, st); err != nil {
			t.Fatal(err)
		}
	}
	const most = 100 << 10
	if got := stored(t, db, state.InstallsCollection, uid); got > most {
		t.Errorf("the order has %d bytes, want %d at most", got, most)
	}
	for range 4 {
		if err := s.AddLog(ctx, slices.Repeat([]string{long, ""}, 20)); err != nil {
			t.Fatal(err)
		}
	}
	if got := stored(t, db, state.InstallLogCollection, uid+":00000001"); got > 400<<10 {
		t.Errorf("the log has %d bytes", got)
	}
	facts := `{"disk":{"serial":"S  1\u001b","wwn":"` + strings.Repeat("w", 5000) + `"}}`
	if err := s.Report(ctx, config.Status{State: config.StateSuccess, Facts: json.RawMessage(facts)}); err != nil {
		t.Fatal(err)
	}
	got := one(t, is)
	if d := got.Disk; d.Serial != "S  1\ufffd" || len(d.WWN) > 210 {
		t.Errorf("the disk is %.300q", d)
	}
	for _, st := range got.Steps {
		if strings.ContainsAny(st.Step+st.Result+st.Message, "\x1b\u009b") || st.Facts != nil {
			t.Fatalf("kept of a status: %.300q", st.Step)
		}
	}
}

func TestHardwareOfAHostileMachine(t *testing.T) {
	var disks, ports []string
	for n := range 3000 {
		disks = append(disks, fmt.Sprintf(`{"path":"/dev/sd%d","serial":"%s","size":-1}`, n, strings.Repeat("s", 500)))
		ports = append(ports, fmt.Sprintf(`{"name":"e%d\u001b[2J","mac":"\u009bA","speed-mbps":-5000}`, n))
	}
	text := `{"vendor":"\u202ex","cpus":1,"memory-mib":-3,"disks":[` + strings.Join(disks, ",") + `],"ports":[` + strings.Join(ports, ",") + `]}`
	d := install.Details(json.RawMessage(text), json.RawMessage(`{"bios":"\u0007"}`))
	if d == nil || len(d.Storage) != 256 || len(d.NIC) != 256 || d.RAMMebibytes != 0 || d.Storage[0].SizeBytes != 0 || d.NIC[0].SpeedGbps != 0 {
		t.Fatalf("details: %.300v", d)
	}
	kept, err := json.Marshal(d)
	if err != nil || len(kept) > 256<<10 || strings.ContainsAny(string(kept), "\u009b\u202e") || strings.Contains(string(kept), `\u00`) {
		t.Errorf("%d bytes are kept, %v: %.300s", len(kept), err, kept)
	}
}
