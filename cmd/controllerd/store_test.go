package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

func TestCommandsForTheStore(t *testing.T) {
	server, err := mongotest.Start(mongotest.Config{Users: map[string]string{"slipway": "s3cret"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := server.URL("slipway")
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"pass": "correct horse battery\n", "credentials": "slipway:s3cret\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		args string
		want string // part of the output, or of the error if it begins with "error:"
	}{
		{"bootstrap --data-dir SITE --listen 127.0.0.1:0", ""},
		{"export-join --data-dir SITE --out JOIN --passphrase-file PASS", "error: the state is in the embedded store"},
		{"migrate --from SITE --to URL", "error: "}, // no credentials
		{"migrate --from SITE --to URL --store-credentials-file CREDENTIALS", "documents, each compared"},
		{"migrate --from SITE --to URL --store-credentials-file CREDENTIALS", "error: the state of SITE is in MongoDB already"},
		{"backup --data-dir SITE --out BACKUP", "error: the state is in MongoDB"},
		{"export-join --data-dir SITE --out JOIN --passphrase-file PASS", "wrote JOIN; on the other machine: controllerd join"},
		{"restore --data-dir OTHER --from JOIN --passphrase-file PASS", "it is a join file, and no backup of a controller"},
		{"join --data-dir OTHER --store URL --join-file JOIN --passphrase-file PASS --listen 127.0.0.1:0", "error: "}, // no credentials
		{"join --data-dir OTHER --store URL --store-credentials-file CREDENTIALS --join-file JOIN --passphrase-file PASS --listen 127.0.0.1:0", "joined; serve it with: controllerd run --data-dir OTHER"},
		{"join --data-dir OTHER --store URL --store-credentials-file CREDENTIALS --join-file JOIN --passphrase-file PASS --listen 127.0.0.1:0", "error: data directory OTHER holds a site already"},
		{"bootstrap --data-dir THIRD --listen 127.0.0.1:0 --store URL --store-credentials-file CREDENTIALS", "error: the database at URL holds a site already"},
	} {
		names := strings.NewReplacer("SITE", path("site"), "OTHER", path("other"), "THIRD", path("third"), "BACKUP", path("b"),
			"JOIN", path("join"), "PASS", path("pass"), "CREDENTIALS", path("credentials"), "URL", url)
		stdout, stderr, err := execute(t, strings.Fields(names.Replace(step.args))...)
		printed, want := stdout+stderr, names.Replace(step.want)
		if fails := strings.HasPrefix(want, "error:") || strings.HasPrefix(want, "it is"); (err != nil) != fails || !strings.Contains(printed, want) {
			t.Fatalf("%q printed %q, %v; want %q", step.args, printed, err, want)
		}
		if strings.Contains(printed, "horse") || strings.Contains(printed, "s3cret") {
			t.Errorf("%q shows a secret: %s", step.args, printed)
		}
	}
}
