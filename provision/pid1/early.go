package pid1

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/juju/errors"
)

// mounts is THE list of the kernel's file systems, in order. Without the first
// three nothing works; without the others something may.
var mounts = []struct {
	source, dir, fs, options string
	needed                   bool
}{
	{"devtmpfs", "/dev", "devtmpfs", "mode=0755", true},
	{"proc", "/proc", "proc", "", true},
	{"sysfs", "/sys", "sysfs", "", true},
	{"tmpfs", "/tmp", "tmpfs", "mode=1777,size=256m", false},
	{"tmpfs", "/run", "tmpfs", "mode=0755,size=64m", false},
	{"devpts", "/dev/pts", "devpts", "mode=0620", false},
}

// MountAll mounts the kernel's file systems below root, "/" but in a test.
func MountAll(k Kernel, root string) error {
	for _, m := range mounts {
		dir := filepath.Join(root, m.dir)
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = k.Mount(m.source, dir, m.fs, m.options)
		}
		if err != nil && m.needed {
			return err
		}
		if err != nil {
			logger.Warningf("%v", err)
		}
	}
	return nil
}

// Modules loads the modules that the machine's hardware asks for.
type Modules struct {
	kernel Kernel
	dir    string // of the module files
	sys    string
	deps   map[string][]string // path -> paths it needs
	byName map[string]string
	alias  []alias
	done   map[string]bool // paths that were loaded or given up
}

// alias leads from a pattern of hardware to a module's name.
type alias struct {
	prefix  string // of the pattern, up to its first special character
	pattern string
	name    string
}

// ReadModules reads the tables of the modules in dir. Without any there are no
// modules, which is right for a kernel that has everything built in.
func ReadModules(k Kernel, dir, sys string) *Modules {
	m := &Modules{kernel: k, dir: dir, sys: sys, deps: map[string][]string{}, byName: map[string]string{}, done: map[string]bool{}}
	for _, line := range readLines(filepath.Join(dir, "modules.dep")) {
		if p, rest, ok := strings.Cut(line, ":"); ok {
			m.deps[p] = strings.Fields(rest)
			name, _, _ := strings.Cut(path.Base(p), ".ko")
			m.byName[strings.ReplaceAll(name, "-", "_")] = p
		}
	}
	for _, line := range readLines(filepath.Join(dir, "modules.alias")) {
		if w := strings.Fields(line); len(w) == 3 && w[0] == "alias" {
			prefix := w[1]
			if i := strings.IndexAny(prefix, "*?["); i >= 0 {
				prefix = prefix[:i]
			}
			m.alias = append(m.alias, alias{prefix, w[1], strings.ReplaceAll(w[2], "-", "_")})
		}
	}
	return m
}

func readLines(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// Load loads what is listed for every machine and then what hardware asks for, until
// nothing new appears: a driver of a bus finds devices that ask for more. settle is
// called between rounds. It returns how many modules were loaded; failures are logged.
func (m *Modules) Load(settle func()) int {
	loaded := 0
	for _, p := range readLines(filepath.Join(m.dir, "always")) {
		loaded += m.load(p)
	}
	for range 8 {
		before := loaded
		for _, device := range m.devices() {
			for _, a := range m.alias {
				if strings.HasPrefix(device, a.prefix) && match(a.pattern, device) {
					loaded += m.load(m.byName[a.name])
				}
			}
		}
		if loaded == before {
			break
		}
		settle()
	}
	return loaded
}

// load loads a module after those it needs, and returns how many were new.
func (m *Modules) load(p string) int {
	if p == "" || m.done[p] {
		return 0
	}
	m.done[p] = true
	n := 0
	needs := m.deps[p]
	for i := len(needs) - 1; i >= 0; i-- { // the last is needed first
		n += m.load(needs[i])
	}
	if err := m.kernel.LoadModule(filepath.Join(m.dir, p)); err != nil {
		logger.Debugf("%v", err) // hardware that is not there, mostly
		return n
	}
	return n + 1
}

// devices returns what the hardware found so far asks by.
func (m *Modules) devices() []string {
	seen := map[string]bool{}
	var out []string
	_ = filepath.WalkDir(filepath.Join(m.sys, "devices"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "modalias" {
			if b, err := os.ReadFile(p); err == nil {
				if a := strings.TrimSpace(string(b)); a != "" && !seen[a] {
					seen[a] = true
					out = append(out, a)
				}
			}
		}
		return nil
	})
	return out
}

// patternPart matches what is special in a pattern.
var patternPart = regexp.MustCompile(`\\.|\*|\?|\[[^\]]*\]|[^*?\[\\]+`)

// match compares as fnmatch(3) does without flags: a star spans everything.
func match(pattern, s string) bool {
	var re strings.Builder
	re.WriteString("^")
	for _, part := range patternPart.FindAllString(pattern, -1) {
		switch {
		case part == "*":
			re.WriteString(".*")
		case part == "?":
			re.WriteString(".")
		case part[0] == '[':
			re.WriteString(part)
		default:
			re.WriteString(regexp.QuoteMeta(part))
		}
	}
	r, err := regexp.Compile("(?s)" + re.String() + "$")
	return err == nil && r.MatchString(s)
}

// SetClock sets the clock from the server if they differ by more than a second.
func SetClock(k Kernel, now, server time.Time) error {
	if d := server.Sub(now); d.Abs() > time.Second {
		if err := k.SetClock(server); err != nil {
			return err
		}
		logger.Infof("clock was %v off and is set from the controller", d.Round(time.Second))
	}
	return nil
}

// errNoWatchdog says that there is none.
var errNoWatchdog = errors.NotFoundf("watchdog device")
