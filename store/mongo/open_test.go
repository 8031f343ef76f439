package mongo_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	driverbson "gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/internal/testport"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

func writeFile(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenRefusesInOneLine(t *testing.T) {
	users := map[string]string{"slipway": "s3cret"}
	wrong := writeFile(t, "wrong", []byte("slipway:guess\n"))
	for _, c := range []struct {
		name   string
		server mongotest.Config
		change func(*mongo.Config)
		kind   error
		text   string
	}{
		{"no member of a replica set", mongotest.Config{Standalone: true}, nil, errors.NotSupported, "--replSet"},
		{"not initiated", mongotest.Config{Uninitiated: true}, nil, errors.NotSupported, "rs.initiate()"},
		{"too old", mongotest.Config{WireVersion: 7}, nil, errors.NotSupported, "MongoDB 4.2"},
		{"another replica set", mongotest.Config{SetName: "other"}, func(c *mongo.Config) {
			c.URL = strings.Replace(c.URL, "replicaSet=other", "replicaSet=rs0", 1)
		}, errors.NotSupported, `"other", and the URL says "rs0"`},
		{"wrong password", mongotest.Config{Users: users}, func(c *mongo.Config) { c.CredentialsFile = wrong }, errors.Unauthorized, `refuses user "slipway"`},
		{"no credentials", mongotest.Config{Users: users}, nil, errors.Unauthorized, "name a credentials file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newDouble(t, c.server)
			config := mongo.Config{URL: server.URL("slipway"), Collections: collections}
			if c.change != nil {
				c.change(&config)
			}
			_, err := mongo.Open(deadline(t), config)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open = %v, want a %v in one line with %q", err, c.kind, c.text)
			}
			if err != nil && (strings.Contains(err.Error(), "guess") || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("Open = %v, which holds a password", err)
			}
		})
	}
}

func TestOpenWithoutAServer(t *testing.T) {
	addr := testport.Refusing(t)
	_, err := mongo.Open(deadline(t), mongo.Config{URL: "mongodb://" + addr + "/slipway", Collections: collections})
	if err == nil || !strings.Contains(err.Error(), "cannot reach MongoDB at "+addr) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Open = %v, want where and why it fails", err)
	}
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	apply(t, s, store.Insert(key("a"), nil, nil))
	meta := driver(t, server).DB("slipway").C("slipway.meta")
	if err := meta.UpdateId("store", driverbson.M{"$set": driverbson.M{"format": 2}}); err != nil {
		t.Fatal(err)
	}
	var before, after driverbson.M
	if err := meta.FindId("store").One(&before); err != nil {
		t.Fatal(err)
	}
	_, err := mongo.Open(deadline(t), mongo.Config{URL: server.URL("slipway"), Collections: collections})
	if !errors.Is(err, mongo.ErrNewer) || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("Open = %v, want newer", err)
	}
	if err := meta.FindId("store").One(&after); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("a refused opening changed the store from %v to %v", before, after)
	}
}

func TestOpenWithCredentialsAndCertificates(t *testing.T) {
	ca, err := mongotest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	config, err := ca.ServerConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue("controller")
	if err != nil {
		t.Fatal(err)
	}
	server := newDouble(t, mongotest.Config{Members: 2, TLS: config, Users: map[string]string{"slip=way,": "pass:word,="}})
	c := mongo.Config{
		URL:             server.URL("slipway"),
		Collections:     collections,
		CAFile:          writeFile(t, "ca.pem", ca.PEM),
		CertificateFile: writeFile(t, "cert.pem", cert),
		CredentialsFile: writeFile(t, "credentials", []byte("slip=way,:pass:word,=\nnot read\n")),
	}
	s := open(t, c)
	apply(t, s, store.Insert(key("a"), []byte("1"), nil), store.Insert(claim("a"), nil, nil))
	server.StepDown()
	apply(t, s, store.Replace(key("a"), rev(t, s, key("a")), []byte("2"), nil))

	c.CertificateFile = ""
	if _, err := mongo.Open(deadline(t), c); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("Open without a certificate = %v", err)
	}
	c.CAFile = ""
	if _, err := mongo.Open(deadline(t), c); err == nil || !strings.Contains(err.Error(), "does it require TLS?") {
		t.Errorf("Open without TLS = %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]struct {
		config mongo.Config
		want   string // part of the error; "" means valid
	}{
		"a host":                     {mongo.Config{URL: "mongodb://db/slipway"}, ""},
		"hosts with ports":           {mongo.Config{URL: "mongodb://a:1,[::1]:2,c/slipway?replicaSet=rs0&authSource=x&tls=true"}, ""},
		"another scheme":             {mongo.Config{URL: "postgres://db/slipway"}, "must start with mongodb://"},
		"no database":                {mongo.Config{URL: "mongodb://db"}, "database name"},
		"a bad database":             {mongo.Config{URL: "mongodb://db/a.b"}, "database name"},
		"no host":                    {mongo.Config{URL: "mongodb:///slipway"}, "host"},
		"credentials in it":          {mongo.Config{URL: "mongodb://user:hunter2@db/slipway"}, "credentials file"},
		"an unknown option":          {mongo.Config{URL: "mongodb://db/slipway?w=0"}, `option "w"`},
		"reads of old data":          {mongo.Config{URL: "mongodb://db/slipway?readPreference=secondary"}, `option "readPreference"`},
		"another mechanism":          {mongo.Config{URL: "mongodb://db/slipway?authMechanism=SCRAM-SHA-256"}, `option "authMechanism"`},
		"compression":                {mongo.Config{URL: "mongodb://db/slipway?compressors=zstd"}, `option "compressors"`},
		"an option in other letters": {mongo.Config{URL: "mongodb://db/slipway?replicaset=rs0"}, `option "replicaset"`},
		"a name for all members":     {mongo.Config{URL: "mongodb+srv://db/slipway"}, "must start with mongodb://"},
		"an escape that is none":     {mongo.Config{URL: "mongodb://db/slipway%zz"}, "cannot be parsed"},
		"no host between commas":     {mongo.Config{URL: "mongodb://a,,b/slipway"}, "host"},
		"tls of neither":             {mongo.Config{URL: "mongodb://db/slipway?tls=maybe"}, "true or false"},
		"a timeout below zero":       {mongo.Config{URL: "mongodb://db/slipway", Timeout: -1}, "below zero"},
		"a collection of the server": {mongo.Config{URL: "mongodb://db/slipway", Collections: []store.Collection{{Name: "system.users"}}}, "collection name"},
		"our own collection":         {mongo.Config{URL: "mongodb://db/slipway", Collections: []store.Collection{{Name: "slipway.meta"}}}, "collection name"},
		"a collection twice":         {mongo.Config{URL: "mongodb://db/slipway", Collections: []store.Collection{{Name: "a"}, {Name: "a"}}}, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.config.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Validate = %v, want nil", err)
			case c.want != "" && (!errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Validate = %v, want not valid with %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Validate = %v, which holds a password", err)
			}
		})
	}
}

func TestOpenWithBadFiles(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	nonsense := writeFile(t, "nonsense", []byte("nonsense"))
	for name, c := range map[string]mongo.Config{
		"no credentials file":       {CredentialsFile: "/nowhere/at/all"},
		"credentials without colon": {CredentialsFile: nonsense},
		"no CA file":                {CAFile: "/nowhere/at/all"},
		"CA without certificate":    {CAFile: nonsense},
		"no certificate file":       {CertificateFile: "/nowhere/at/all"},
		"certificate without key":   {CertificateFile: nonsense},
	} {
		c.URL, c.Collections = server.URL("slipway"), collections
		if _, err := mongo.Open(context.Background(), c); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: Open = %v, want one line", name, err)
		}
	}
}

func TestTombstonesAreSweptUp(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	f := feed(t, s, "")
	apply(t, s, store.Insert(key("a"), nil, nil), store.Insert(key("b"), nil, nil), store.AssertMissing(key("c")))
	apply(t, s, store.Remove(key("a"), rev(t, s, key("a"))))
	gone := driverbson.M{"gone": true}
	if n := documents(t, server, "machines", gone); n != 2 { // a, and c that was asserted to be missing
		t.Errorf("%d tombstones, want 2", n)
	}
	if err := s.Sweep(deadline(t), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := documents(t, server, "machines", gone); n != 2 {
		t.Errorf("%d tombstones after sweeping old ones, want 2", n)
	}
	if err := s.Sweep(deadline(t), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := documents(t, server, "machines", nil); n != 1 {
		t.Errorf("%d documents after sweeping all, want 1", n)
	}
	apply(t, s, store.Insert(key("a"), nil, nil))
	got := read(t, f, 4) // sweeping is no change
	if got[2].Key != key("a") || !got[2].Removed || got[3].Key != key("a") || got[3].Rev <= got[2].Rev {
		t.Errorf("changes = %+v", got)
	}
}

func TestListBoundsInText(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", "a": "b", "m:": "m;", "é": "ê", "\u007f": "\u0080", "a\ud7ff": "a\ue000", "a\U0010ffff": "b", "\U0010ffff": "",
	} {
		if got := mongo.After(prefix); got != want {
			t.Errorf("After(%q) = %q, want %q", prefix, got, want)
		}
	}
	seen := map[string]string{}
	for _, c := range [][2]string{{"a", "b"}, {"a", "=b"}, {"a=", "b"}, {"a!", "b"}, {"a", "!b"}, {"a", "%00"}, {"a", "\x00"}, {"a", "\xff"}, {"a", "%FF"}, {"a", ""}, {"", "a"}} {
		e := mongo.IndexEntry(c[0], c[1])
		if old, ok := seen[e]; ok {
			t.Errorf("%q is the entry of %q and of %s", e, c, old)
		}
		seen[e] = fmt.Sprintf("%q", c)
	}
}

func TestTextThatMongoCannotKeep(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	for _, id := range []string{"a\x00b", "a\xffb"} {
		if err := s.Apply(deadline(t), []store.Op{store.Insert(key("%s", id), nil, nil)}); !errors.Is(err, errors.NotValid) {
			t.Errorf("Apply of id %q = %v, want not valid", id, err)
		}
	}
	if err := s.Apply(deadline(t), []store.Op{store.Insert(key("a"), make([]byte, 16<<20), nil)}); !errors.Is(err, errors.NotValid) {
		t.Errorf("Apply of 16 MB = %v, want not valid", err)
	}
	// Everything else goes through: dollars, dots, and what looks like an error.
	odd := map[string]string{"model": "\x00\xff$.="}
	data := []byte("\x02errmsg\x00\x02$err\x00 \xff\xfe {\"$set\": 1, \"a.b\": NaN}")
	for _, id := range []string{"$set", "a.b.c", ".", "$", "_id", "{\"$gt\":\"\"}", " "} {
		apply(t, s, store.Insert(key("%s", id), data, odd))
		doc, err := s.Get(deadline(t), key("%s", id))
		if err != nil || string(doc.Data) != string(data) {
			t.Errorf("Get(%q) = %q, %v", id, doc.Data, err)
		}
	}
	page, err := s.List(deadline(t), store.Query{Collection: "machines", Index: "model", Value: odd["model"]})
	if err != nil || len(page.Docs) != 7 {
		t.Errorf("List by an odd value = %d documents, %v, want 7", len(page.Docs), err)
	}
}

// TestLargeBatch applies more bytes than one command may hold, and reads back
// more than one answer may hold.
func TestLargeBatch(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	const n = 40
	var ops []store.Op
	var keys []store.Key
	for i := range n { // 60 MB
		ops = append(ops, store.Insert(key("%02d", i), make([]byte, 3<<19), nil))
		keys = append(keys, ops[i].Key)
	}
	apply(t, s, ops...)
	docs, err := s.GetAll(deadline(t), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range docs {
		if d.Rev == 0 || len(d.Data) != 3<<19 {
			t.Fatalf("document %d has %d bytes at %d", i, len(d.Data), d.Rev)
		}
	}
}

// TestCommandsAfterTheEnd has a command come after Close, as one does whose caller
// left just before.
func TestCommandsAfterTheEnd(t *testing.T) {
	s := open(t, mongo.Config{URL: newDouble(t, mongotest.Config{}).URL("slipway")})
	if err := s.SendPing(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.SendPing(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a command after the end = %v, want ErrClosed", err)
	}
}
