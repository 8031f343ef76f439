package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// TestServersThatAreRefused: whoever names a server that cannot keep the state
// reads one line that says so and what to do, and the exit code is that of a
// failure.
func TestServersThatAreRefused(t *testing.T) {
	users := map[string]string{"slipway": "s3cret"}
	wrong := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(wrong, []byte("slipway:guess\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		server mongotest.Config
		change func(url string) []string // the arguments after --store; nil means the URL alone
		want   string
	}{
		{"no replica set", mongotest.Config{Standalone: true}, nil, "is not a member of a replica set: start mongod with --replSet"},
		{"not initiated", mongotest.Config{Uninitiated: true}, nil, "run rs.initiate()"},
		{"too old", mongotest.Config{WireVersion: 7}, nil, "is too old"},
		{"no credentials", mongotest.Config{Users: users}, nil, "name a credentials file"},
		{"refused credentials", mongotest.Config{Users: users}, func(url string) []string {
			return []string{url, "--store-credentials-file", wrong}
		}, `MongoDB refuses user "slipway"`},
		{"an option that is not supported", mongotest.Config{}, func(url string) []string {
			return []string{url + "&readPreference=secondary"}
		}, `option "readPreference" in the store URL (replicaSet, authSource or tls)`},
		{"another scheme", mongotest.Config{}, func(url string) []string {
			return []string{strings.Replace(url, "mongodb:", "mongodb+srv:", 1)}
		}, "must start with mongodb://"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, err := mongotest.Start(tt.server)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			more := []string{server.URL("slipway")}
			if tt.change != nil {
				more = tt.change(more[0])
			}
			dir := filepath.Join(t.TempDir(), "site")
			args := append([]string{"bootstrap", "--data-dir", dir, "--listen", "127.0.0.1:0", "--store"}, more...)
			stdout, stderr, err := execute(t, args...)
			if code := command.ExitCode(err); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if stdout != "" || !strings.HasPrefix(stderr, "error: ") || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("it says %q and %q, want one line with %q", stdout, stderr, tt.want)
			}
			if strings.Contains(stderr, "guess") || strings.Contains(stderr, "s3cret") {
				t.Error("it shows a password")
			}
		})
	}
}

// TestFlagsThatAreMissing: a command that was typed without what it needs says in
// one line what that is, exits with 2, and has touched nothing.
func TestFlagsThatAreMissing(t *testing.T) {
	for line, want := range map[string]string{
		"backup":                             "backup needs --out",
		"backup --out x --with-secrets":      "secrets are kept under a passphrase only: give --passphrase-file FILE",
		"backup --out x --passphrase-file y": "a backup without secrets has no passphrase",
		"run --max-logs-size 0":              "--max-logs-size 0 keeps nothing",
		"dev --max-logs-age -1h":             "--max-logs-age -1h0m0s keeps nothing",
		"restore":                            "restore needs --from",
		"export-join":                        "export-join needs --out",
		"export-join --out x":                "export-join needs --passphrase-file",
		"join":                               "join needs --store",
		"join --store mongodb://h/d":         "join needs --join-file",
		"migrate":                            "migrate needs --from",
		"migrate --from /nonesuch":           "migrate needs --to",
		"rotate-host-key extra":              `rotate-host-key does not take "extra"`,
	} {
		t.Run(line, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			args := strings.Fields(line)
			if args[0] != "migrate" {
				args = append(args, "--data-dir", "site")
			}
			stdout, stderr, err := execute(t, args...)
			if code := command.ExitCode(err); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			if stdout != "" || !strings.HasPrefix(stderr, "error: "+want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("it says %q and %q, want one line with %q", stdout, stderr, want)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
				t.Errorf("it left %v, %v", left, err)
			}
		})
	}
}
