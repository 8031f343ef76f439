package simulated

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/internal/atomicfile"
)

// stored is an instance as the journal keeps it.
type stored struct {
	ID      instance.ID       `json:"id"`
	Number  uint64            `json:"number"` // that ID and address are made of
	Owner   environs.Owner    `json:"owner"`
	Kind    string            `json:"kind"`
	Zone    string            `json:"zone"`
	Base    string            `json:"base"`
	Tags    map[string]string `json:"tags,omitempty"`
	Agent   Agent             `json:"agent"`
	Host    instance.ID       `json:"host,omitempty"` // of a container
	Volumes []environs.Volume `json:"volumes,omitempty"`

	Addresses []network.Address `json:"addresses,omitempty"` // that it was given; empty means the one made of Number
}

// record is a line of the journal: the first names the format, each other says
// that an instance was started or stopped.
type record struct {
	Format  string      `json:"format,omitempty"`
	Next    uint64      `json:"next,omitempty"` // the number of the next instance
	Started *stored     `json:"started,omitempty"`
	Stopped instance.ID `json:"stopped,omitempty"`
}

// format is what the first line of a journal says.
const format = "slipway-rack-1"

// journal keeps instances in a file to which lines are added. It holds what
// was written when the process is killed at any moment; it is not made for the
// loss of power, which a simulation need not outlive. It holds the passwords
// of agents, so only its owner can read it.
type journal struct {
	path  string
	file  *os.File // open for adding lines
	lock  *os.File // held while the journal is open
	lines int      // in the file
}

// openJournal opens the journal in dir, which is made if it is not there, and
// returns the instances in it and the number of the next one. It returns an
// error satisfying errors.AlreadyExists if another process has it open, and
// errors.NotValid if it is not a journal or damaged.
func openJournal(dir string) (*journal, map[instance.ID]*stored, uint64, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, 0, errors.Trace(err)
	}
	lock, err := lockFile(filepath.Join(dir, "rack.lock"))
	if err != nil {
		return nil, nil, 0, err
	}
	j := &journal{path: filepath.Join(dir, "rack.journal"), lock: lock}
	instances, next, err := j.read()
	if err == nil {
		err = j.rewrite(instances, next)
	}
	if err != nil {
		_ = lock.Close() // the error that matters is err
		return nil, nil, 0, err
	}
	return j, instances, next, nil
}

// lockFile returns the locked file at path, which holds the owner's pid.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := io.ReadAll(io.LimitReader(f, 20)) // only for the message
		_ = f.Close()
		return nil, errors.WithType(errors.Errorf("%s is in use by process %s",
			filepath.Dir(path), strings.TrimSpace(string(pid))), errors.AlreadyExists)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid()) // only for the message
	}
	return f, nil
}

// read returns what the file says. A last line that was cut off is ignored: its
// writer was killed before anyone was told of it.
func (j *journal) read() (map[instance.ID]*stored, uint64, error) {
	instances, next := map[instance.ID]*stored{}, uint64(1)
	data, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return instances, next, nil
	}
	if err != nil {
		return nil, 0, errors.Trace(err)
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line[len(line)-1] != '\n' && number > 1 {
			break
		}
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			return nil, 0, errors.NotValidf("%s: line %d is damaged, so the file", j.path, number)
		}
		if number == 1 && rec.Format != format {
			return nil, 0, errors.NotValidf("%s: it is not the journal of a rack, so the file", j.path)
		}
		next = max(next, rec.Next)
		if s := rec.Started; s != nil {
			instances[s.ID] = s
			next = max(next, s.Number+1)
		}
		delete(instances, rec.Stopped)
	}
	return instances, next, nil
}

// rewrite replaces the file by one that says the same in the fewest lines.
func (j *journal) rewrite(instances map[instance.ID]*stored, next uint64) error {
	err := atomicfile.WriteFunc(j.path, 0o600, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		if err := enc.Encode(record{Format: format, Next: next}); err != nil {
			return err
		}
		for _, s := range instances {
			if err := enc.Encode(record{Started: s}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return errors.Trace(err)
	}
	file, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return errors.Trace(err)
	}
	if j.file != nil {
		_ = j.file.Close() // nothing was buffered
	}
	j.file, j.lines = file, 1+len(instances)
	return nil
}

// add writes a line.
func (j *journal) add(rec record) error {
	line, err := json.Marshal(rec)
	if err != nil {
		return errors.Trace(err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return errors.Trace(err)
	}
	j.lines++
	return nil
}

// bloated reports whether most lines no longer matter.
func (j *journal) bloated(instances int) bool { return j.lines > 1000+4*instances }

// close lets another process open the journal.
func (j *journal) close() {
	_ = j.file.Close() // nothing was buffered
	_ = j.lock.Close()
}
