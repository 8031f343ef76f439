package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parse reads flags as the command does.
func parse(t *testing.T, args ...string) (*ironicFlags, error) {
	t.Helper()
	var f ironicFlags
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.add(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	_, err := f.read()
	return &f, err
}

func TestIronicFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, token := file("good", "admin:sec:ret\nmore\n"), file("token", "  abc \n")
	f, err := parse(t, "--ironic", "http://h/v1", "--ironic-credentials-file", good, "--ironic-deploy-kernel", "http://k",
		"--ironic-deploy-ramdisk", "http://r", "--ironic-interface", "deploy=fake,network=noop", "--ironic-no-cleaning")
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.read()
	if err != nil || c.Username != "admin" || c.Password != "sec:ret" || c.DeployKernel != "http://k" || c.DeployRamdisk != "http://r" ||
		!c.NoCleaning || c.Interfaces["deploy"] != "fake" || c.Token != nil {
		t.Errorf("user %q, kernel %q, interfaces %v, %v", c.Username, c.DeployKernel, c.Interfaces, err)
	}
	f, err = parse(t, "--ironic", "http://h/v1", "--ironic-token-file", token)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = f.read(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"abc", "new"} {
		if got, err := c.Token(); err != nil || got != want {
			t.Errorf("token = %q, %v, want %q", got, err, want)
		}
		file("token", "new\n") // it is read for each request
	}
	for want, args := range map[string][]string{
		"without --ironic URL": {"--ironic-deploy-kernel", "http://k"},
		"not both":             {"--ironic", "http://h", "--ironic-credentials-file", good, "--ironic-token-file", token},
		"is not USER:PASSWORD": {"--ironic", "http://h", "--ironic-credentials-file", file("bad", "hush\n")},
		"is empty":             {"--ironic", "http://h", "--ironic-token-file", file("empty", "\n")},
		"no such file":         {"--ironic", "http://h", "--ironic-ca-file", filepath.Join(dir, "none")},
		"no certificate":       {"--ironic", "http://h", "--ironic-ca-file", good},
		"is not a URL":         {"--ironic", "h"},
		"no interface called":  {"--ironic", "http://h", "--ironic-interface", "x=y"},
	} {
		if _, err := parse(t, args...); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	if _, err := parse(t); err != nil {
		t.Errorf("no flags: %v", err)
	}
}
