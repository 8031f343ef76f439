package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
)

// measurement is something that can be measured alone.
type measurement struct {
	name  string
	about string
	limit time.Duration // for all its sizes, as far as these cost nothing
	each  time.Duration // besides, for each machine; 0 if their number does not matter
	run   func(b *bench, ctx context.Context) error
}

// within returns how long the measurement may take for models of these sizes.
func (m measurement) within(machines []int) time.Duration {
	d := m.limit
	for _, n := range machines {
		d += time.Duration(n) * m.each
	}
	return d
}

// measurements returns all there are, in the order in which they run.
func measurements() []measurement {
	return []measurement{
		{"life", "Provisioner.Life of one machine, over 1 to 256 connections", 2 * time.Minute, 0, (*bench).life},
		{"bulk", "calls about 1,000 machines, and the status of all", 5 * time.Minute, 30 * time.Millisecond, (*bench).bulk},
		{"watch", "one change to thousands of watchers", 5 * time.Minute, 0, (*bench).watch},
		{"add", "add-machine until all have started", 15 * time.Minute, 60 * time.Millisecond, (*bench).add},
		{"hosts", "up to 1,000 simulated bare-metal hosts until all are provisioned", 10 * time.Minute, 0, (*bench).hosts},
		{"power", "the power of up to 10,000 hosts with BMCs, read every minute", 20 * time.Minute, 0, (*bench).power},
		{"agents", "memory, and the return of all agents after a restart", 10 * time.Minute, 60 * time.Millisecond, (*bench).agents},
	}
}

// sizes say how much is measured.
type sizes struct {
	machines    []int         // of models
	connections []int         // for calls at a time
	calling     time.Duration // how long calls are made
	rounds      int           // of what is repeated
	watching    int           // connections that have watchers
	idle        time.Duration // how long idleness is watched
	refreshing  time.Duration // how long the power of hosts is watched
}

// scales returns the sizes that -scale chooses from.
func scales() map[string]sizes {
	return map[string]sizes{
		"full": {
			machines: []int{100, 1000, 10000}, connections: []int{1, 16, 256}, calling: 5 * time.Second,
			rounds: 20, watching: 1000, idle: 20 * time.Second, refreshing: 2 * time.Minute,
		},
		"small": {
			machines: []int{100}, connections: []int{1, 16}, calling: time.Second,
			rounds: 5, watching: 50, idle: 3 * time.Second, refreshing: 20 * time.Second,
		},
	}
}

// bench is one run of the program.
type bench struct {
	sizes
	programs string        // folder
	calm     time.Duration // before the memory with all agents is read
	dir      string        // for everything that is written
	out      io.Writer
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == beAPerson {
		if err := servePerson(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "error: person:", err)
			os.Exit(1)
		}
		return
	}
	programs := flag.String("programs", "bin", "folder with controllerd, provisionerd and slipway")
	scale := flag.String("scale", "full", "small or full: up to 100 or up to 10,000 machines")
	only := flag.String("only", "", "what to measure, separated by commas; empty means everything")
	machines := flag.Int("machines", 0, "measure with this number of machines alone; 0 means those of the scale")
	calmness := flag.Duration("calm", calm, "how long to leave the controller alone before its memory with all agents is read; the runtime collects at rest every two minutes")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Measure a site as its users meet it:")
		for _, m := range measurements() {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-8s %s\n", m.name, m.about)
		}
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{programs: *programs, calm: *calmness, out: os.Stdout}
	var known bool
	if b.sizes, known = scales()[*scale]; !known {
		fmt.Fprintf(os.Stderr, "error: there is no scale %q: give small or full\n", *scale)
		os.Exit(2)
	}
	if *machines > 0 {
		b.machines = []int{*machines}
	}
	if err := b.all(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// all runs the measurements with these names, or every one.
func (b *bench) all(ctx context.Context, only string) error {
	var err error
	if b.programs, err = filepath.Abs(b.programs); err != nil {
		return errors.Trace(err)
	}
	for _, p := range []string{"controllerd", "provisionerd", "slipway"} {
		if _, err := os.Stat(filepath.Join(b.programs, p)); err != nil {
			return errors.Errorf("%s is not in %s: run make build", p, b.programs)
		}
	}
	chosen, err := choose(only)
	if err != nil {
		return errors.Trace(err)
	}
	loggo.GetLogger("").SetLogLevel(loggo.CRITICAL) // that connections break is part of it
	if b.dir, err = os.MkdirTemp("", "slipway-bench"); err != nil {
		return errors.Trace(err)
	}
	defer os.RemoveAll(b.dir)
	fmt.Fprintf(b.out, "load: %s\n", load())
	for _, m := range chosen {
		limited, cancel := context.WithTimeout(ctx, m.within(b.machines))
		err := m.run(b, limited)
		cancel()
		if err != nil {
			b.showLogs(os.Stderr)
			return errors.Annotatef(err, "cannot measure %s", m.name)
		}
	}
	return nil
}

// showLogs prints the end of what the programs said.
func (b *bench) showLogs(out io.Writer) {
	logs, err := filepath.Glob(filepath.Join(b.dir, "*.log"))
	if err != nil {
		return // not reached: the pattern is well-formed
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			fmt.Fprintln(out, err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(out, "--- end of %s\n%s\n", filepath.Base(log), strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// choose returns the measurements with these names, separated by commas; all
// for none.
func choose(only string) ([]measurement, error) {
	all := measurements()
	if only == "" {
		return all, nil
	}
	var chosen []measurement
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(all, func(m measurement) bool { return m.name == name })
		if i < 0 {
			return nil, errors.NotFoundf("measurement %q (see -help)", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
