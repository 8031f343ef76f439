package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/provision/config"
)

// Facts is what steps have found out and later ones need. They are saved after
// each step and reported to the controller at the end, which keeps Disk as the record
// that a deprovision works by.
type Facts struct {
	Disk     config.DiskID `json:"disk,omitzero"`
	DiskSize int64         `json:"disk-size,omitempty"` // bytes
	Image    string        `json:"image,omitempty"`     // URL chosen of those offered
	Written  int64         `json:"written,omitempty"`   // bytes of the image's content
	Checksum string        `json:"checksum,omitempty"`  // of what was written

	Root   string `json:"root,omitempty"` // device of the root file system
	RootFS string `json:"root-fs,omitempty"`
	ESP    string `json:"esp,omitempty"` // device of the EFI system partition, "" if there is none
	LVM    bool   `json:"lvm,omitempty"` // the disk holds a volume group
	Grew   bool   `json:"grew,omitempty"`

	Mounts          []string `json:"mounts,omitempty"` // in order of mounting
	FirmwareChanged bool     `json:"firmware-changed,omitempty"`
	Kexec           bool     `json:"kexec,omitempty"` // a kernel is loaded to jump to
}

// checkpoint is the file that a run leaves for one that resumes it.
type checkpoint struct {
	Config    string   `json:"config"` // digest of the config it was made for
	Completed []string `json:"completed"`
	Facts     Facts    `json:"facts"`
	Failures  int      `json:"failures"`
	Errors    []string `json:"errors,omitempty"`

	path string // "" saves nothing
}

// digest names a config, secrets and all.
func digest(c *config.MachineConfig) string {
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// loadCheckpoint reads the file at path, or begins afresh if there is none, if it
// cannot be read, or if it belongs to another config.
func loadCheckpoint(path string, c *config.MachineConfig) *checkpoint {
	fresh := &checkpoint{Config: digest(c), path: path}
	if path == "" {
		return fresh
	}
	b, err := os.ReadFile(path)
	if err != nil {
		if !os.IsNotExist(err) {
			logger.Warningf("checkpoint is not used: %v", err)
		}
		return fresh
	}
	var old checkpoint
	if err := json.Unmarshal(b, &old); err != nil {
		logger.Warningf("checkpoint is not used: %v", err)
		return fresh
	}
	if old.Config != fresh.Config {
		logger.Infof("checkpoint is of another order: starting afresh")
		return fresh
	}
	old.path = path
	return &old
}

func (c *checkpoint) done(step string) bool { return slices.Contains(c.Completed, step) }

// mark notes that a step is done, and saves.
func (c *checkpoint) mark(step string) error {
	if !c.done(step) {
		c.Completed = append(c.Completed, step)
	}
	return c.save()
}

// fail notes a failure, and saves.
func (c *checkpoint) fail(err error) error {
	c.Failures++
	c.Errors = append(c.Errors, err.Error())
	return c.save()
}

// save writes the file whole or not at all. Facts hold nothing secret, but
// the file is its owner's alone.
func (c *checkpoint) save() error {
	if c.path == "" {
		return nil
	}
	b, err := json.Marshal(c)
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(atomicfile.Write(c.path, b, 0o600), "cannot save checkpoint")
}

// remove deletes the file.
func (c *checkpoint) remove() error {
	if c.path == "" {
		return nil
	}
	if err := os.Remove(c.path); err != nil && !os.IsNotExist(err) {
		return errors.Annotate(err, "cannot remove checkpoint")
	}
	return nil
}
