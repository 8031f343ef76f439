package pid1

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// reapEvery is how often orphans are looked for.
const reapEvery = 10 * time.Second

// Reaper waits for children that nobody else waits for: orphans of commands and of daemons,
// which the kernel gives to the first process. It must not take a child from a
// command that is still run here, so it takes a dead one only on its second sight.
type Reaper struct {
	proc  string
	pid   int // whose children
	wait  func(pid int)
	seen  map[int]bool
	every time.Duration
}

// NewReaper returns a reaper of the children of pid, found below proc. wait must
// take the dead child.
func NewReaper(proc string, pid int, wait func(pid int)) *Reaper {
	return &Reaper{proc: proc, pid: pid, wait: wait, seen: map[int]bool{}, every: reapEvery}
}

// Run reaps until ctx ends.
func (r *Reaper) Run(ctx context.Context) {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.Once()
		}
	}
}

// Once looks at all processes once.
func (r *Reaper) Once() {
	dirs, _ := filepath.Glob(filepath.Join(r.proc, "[0-9]*"))
	now := map[int]bool{}
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || !r.dead(d) {
			continue
		}
		if r.seen[pid] {
			r.wait(pid)
			continue
		}
		now[pid] = true
	}
	r.seen = now
}

// dead reports whether the process is a dead child of ours (proc(5), stat).
func (r *Reaper) dead(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	w := strings.Fields(rest)
	return ok && len(w) > 1 && w[0] == "Z" && w[1] == strconv.Itoa(r.pid)
}
