//go:build e2e

package lxd_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// A pool without room for a machine, or for its agent, is said to be full, and
// leaves nothing behind. Once there is room the machine starts.
func TestNoSpaceIsSaidAndMended(t *testing.T) {
	t.Parallel()
	inside := newNetwork(t)
	pool := filepath.Join(t.TempDir(), "pool")
	if err := os.Mkdir(pool, 0o711); err != nil {
		t.Fatal(err)
	}
	run := func(script string, args ...string) string {
		t.Helper()
		args = append([]string{"sh", "-c", script, pool}, args...)
		return harness.Run(t, nil, inside[0], append(inside[1:len(inside):len(inside)], args...)...)
	}
	run(`mount -t tmpfs -o size=80m,mode=711 tmpfs "$0"`)
	server := another(t, inside)
	server.must(t, "storage", "create", "small", "dir", "source="+pool)
	server.must(t, "profile", "create", "small")
	server.must(t, "profile", "device", "add", "small", "root", "disk", "path=/", "pool=small")
	s := newStaticSite(t, server)
	s.slipway("model-config", "lxd-profiles=small")
	for _, room := range []int{1, 20} { // in MiB: too little for the image, and for the agent
		run(`head -c $((80 - $1))M /dev/zero >"$0/filler"`, strconv.Itoa(room))
		id := s.add()
		var said string
		s.until("the machine says that there is no room", func() bool {
			said = s.slipway("show-machine", id)
			return strings.Contains(said, "there is no room for the container: make some in its storage pool")
		})
		t.Logf("with %d MiB, show-machine says:\n%s", room, said)
		s.until("nothing is left of a start", func() bool {
			return len(server.containers(t, s.project)) == 0 && run(`ls "$0/containers"`) == ""
		})
		run(`rm "$0/filler"`)
		s.waitFor("started", id) // by itself
		s.slipway("remove-machine", id)
		s.waitFor("gone", id)
	}
}
