// Package disktest gives tests a machine that is not the one they run on: trees in
// place of sysfs and procfs, files in place of disks, and a recorder in place of
// programs. Everything that would be done is written to one log, in order.
package disktest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/disk"
)

// Machine is a machine made of files below a temporary folder. The zero value is
// not usable; call New.
type Machine struct {
	tb  testing.TB
	Dir string // holds sys, proc, dev and disks

	mu      sync.Mutex
	log     []string
	answers []answer
	names   map[string]string // in the log: path below Dir -> what is printed
}

// answer is what the recorder gives for commands that begin with prefix.
type answer struct {
	prefix string
	out    string
	err    error
	do     func()
}

// New returns a machine without disks, whose programs all succeed silently.
func New(tb testing.TB) *Machine {
	m := &Machine{tb: tb, Dir: tb.TempDir(), names: map[string]string{}}
	m.Write("sys/block/.keep", "")
	m.Write("proc/mounts", "")
	m.Write("dev/.keep", "")
	return m
}

// Config reaches the machine.
func (m *Machine) Config() disk.Config {
	return disk.Config{
		SysRoot: filepath.Join(m.Dir, "sys"), ProcRoot: filepath.Join(m.Dir, "proc"), DevRoot: filepath.Join(m.Dir, "dev"),
		Commander: m, Devices: m,
	}
}

// Manager returns a manager of the machine's disks.
func (m *Machine) Manager() *disk.Manager {
	m.tb.Helper()
	mgr, err := disk.NewManager(m.Config())
	if err != nil {
		m.tb.Fatal(err)
	}
	return mgr
}

// Write makes a file below Dir.
func (m *Machine) Write(name, text string) {
	m.tb.Helper()
	p := filepath.Join(m.Dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.tb.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		m.tb.Fatal(err)
	}
}

// AddDisk adds a disk of size bytes (a sparse file), with attributes of sysfs such as
// "device/model". A key "at" gives where the device hangs, for HCTL and USB. It
// returns the file.
func (m *Machine) AddDisk(name string, size int64, attrs map[string]string) string {
	m.tb.Helper()
	base := filepath.Join("sys/devices", attrs["at"]+"/"+name+"-device")
	if at := attrs["at"]; at != "" {
		base = filepath.Join("sys/devices", at)
	}
	m.Write(filepath.Join(base, ".keep"), "")
	for k, v := range attrs {
		if rest, ok := strings.CutPrefix(k, "device/"); ok {
			m.Write(filepath.Join(base, rest), v)
		} else if k != "at" {
			m.Write(filepath.Join("sys/block", name, k), v)
		}
	}
	m.Write("sys/block/"+name+"/size", fmt.Sprint(size/512))
	if _, ok := attrs["removable"]; !ok {
		m.Write("sys/block/"+name+"/removable", "0\n")
	}
	if err := os.Symlink(filepath.Join(m.Dir, base), filepath.Join(m.Dir, "sys/block", name, "device")); err != nil {
		m.tb.Fatal(err)
	}
	m.Write("dev/"+name, "")
	return m.Backing(name, size)
}

// Backing makes the file behind the device node name, of size bytes.
func (m *Machine) Backing(name string, size int64) string {
	m.tb.Helper()
	p := m.File(name)
	m.Write("disks/"+filepath.Base(p), "")
	if err := os.Truncate(p, size); err != nil {
		m.tb.Fatal(err)
	}
	return p
}

// File returns the file behind the device node name.
func (m *Machine) File(name string) string {
	return filepath.Join(m.Dir, "disks", strings.ReplaceAll(name, "/", "_"))
}

// Name prints a path below the test's folders as text in the log.
func (m *Machine) Name(path, text string) { m.names[path] = text }

// Answer makes commands whose line begins with prefix give out and err. Of several
// answers that fit the last given counts.
func (m *Machine) Answer(prefix, out string, err error) {
	m.answers = append(m.answers, answer{prefix: prefix, out: out, err: err})
}

// Do makes commands whose line begins with prefix call f and succeed.
func (m *Machine) Do(prefix string, f func()) {
	m.answers = append(m.answers, answer{prefix: prefix, do: f})
}

// Fail is an answer's error: the program exits with code.
func Fail(name string, code int, output string) error {
	return errors.Trace(&disk.CommandError{Name: name, Code: code, Output: output})
}

// Run implements disk.Commander by recording.
func (m *Machine) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	m.Note(line)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	line = m.clean(line)
	for i := len(m.answers) - 1; i >= 0; i-- {
		if a := m.answers[i]; strings.HasPrefix(line, a.prefix) {
			if a.do != nil {
				a.do()
			}
			return []byte(a.out), a.err
		}
	}
	return nil, nil
}

// Note adds a line to the log.
func (m *Machine) Note(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, m.clean(line))
}

// clean replaces paths of the test's folders.
func (m *Machine) clean(line string) string {
	for path, text := range m.names {
		line = strings.ReplaceAll(line, path, text)
	}
	return strings.ReplaceAll(line, m.Dir, "")
}

// Log returns what was recorded since the last call.
func (m *Machine) Log() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.log
	m.log = nil
	return out
}

// Open implements disk.Devices with the machine's files. Only opens for writing
// are recorded.
func (m *Machine) Open(path string, write bool) (disk.Device, error) {
	flag := os.O_RDONLY
	if write {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(m.File(strings.TrimPrefix(path, "/dev/")), flag, 0)
	if os.IsNotExist(err) {
		return nil, errors.NotFoundf("device %s", path)
	} else if err != nil {
		return nil, err
	}
	if write {
		m.Note("open " + path + " to write")
	}
	return &file{f, m, path}, nil
}

// file is a disk.Device on a file.
type file struct {
	*os.File
	m    *Machine
	path string
}

func (f *file) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Reread makes nodes for the partitions, as the kernel would.
func (f *file) Reread() error {
	f.m.Note("reread " + f.path)
	size, err := f.Size()
	if err != nil {
		return err
	}
	t, err := disk.ReadTable(f, size)
	if err != nil {
		return nil // the kernel says nothing either
	}
	for _, p := range t.Partitions {
		f.m.Write("dev/"+strings.TrimPrefix(disk.PartitionPath(f.path, p.Number), "/dev/"), "")
	}
	return nil
}
