//go:build e2e

package jsclient_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api/clientstore"
)

// The packages of the client, at the versions that were tried.
const (
	library   = "@canonical/jujulib@1.3.2"
	websocket = "ws@8.23.0"
)

// limit bounds the whole test.
const limit = 15 * time.Minute

// install puts the library into a new folder.
func install(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	for try := 1; ; try++ { // the network may hiccup
		cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", library, websocket)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		if t.Logf("try %d to install %s: %v\n%s", try, library, err, out); try == 3 {
			t.Fatalf("cannot install %s: %v", library, err)
		}
	}
	script, err := os.ReadFile("testdata/client.js")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "client.js"), script, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// serve runs a site in one process and returns its folder and its address.
func serve(ctx context.Context, t *testing.T) (dir, address string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "controllerd")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/slipway-project/slipway/cmd/controllerd").CombinedOutput(); err != nil {
		t.Fatalf("cannot build controllerd: %v\n%s", err, out)
	}
	dir = filepath.Join(t.TempDir(), "site")
	cmd := exec.Command(program, "dev", "--data-dir", dir, "--listen", "127.0.0.1:0", "--fast")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // the process has it
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("controllerd: %v", err)
		}
		_ = read.Close()
	})
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			go func() { _, _ = io.Copy(io.Discard, read) }() // ends with the process
			return dir, at
		}
	}
	t.Fatal("controllerd ended before it was ready")
	return "", ""
}

func TestJujulibWorksWithTheController(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client := install(ctx, t)
	dir, address := serve(ctx, t)
	known, err := clientstore.New(filepath.Join(dir, "client")).Read()
	if err != nil {
		t.Fatal(err)
	}
	model := ""
	for name, m := range known.Models[known.Current].Models {
		if strings.HasSuffix(name, "default") {
			model = m.UUID
		}
	}
	run := func(authority string) (string, error) {
		cmd := exec.CommandContext(ctx, "node", "client.js")
		cmd.Dir = client
		cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authority, "ADDRESS="+address, "MODEL="+model,
			"ADMIN_PASSWORD="+string(known.Accounts[known.Current].Password))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(filepath.Join(dir, "ca.pem"))
	t.Log(out)
	if err != nil || !strings.HasSuffix(strings.TrimSpace(out), "all ok") {
		t.Errorf("the client failed: %v", err)
	}
	if out, err := run(filepath.Join(dir, "nonesuch.pem")); err == nil || strings.Contains(out, "ok login") {
		t.Errorf("without the authority the client gets in, so nothing was checked:\n%s", out)
	}
}
