package sqlite

import (
	"path/filepath"
	"runtime"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// Conditions that Open reports. Each comes with a text that names the file and
// says what to do next, and the file is left as it was.
const (
	ErrInUse   = errors.ConstError("store is in use by another process")
	ErrForeign = errors.ConstError("not a Slipway store")
	ErrDamaged = errors.ConstError("store is damaged")
	ErrNewer   = errors.ConstError("store was written by a newer version")
)

// ErrFull says that there is no room for a batch: the disk is full, or
// Config.MaxBytes is reached. Nothing of the batch has been applied, and the
// store goes on working once there is room.
const ErrFull = errors.ConstError("no space left for the store; make room, then try again")

// Config says where and how to open a store.
type Config struct {
	Dir         string             // the data directory; made with mode 0700 if it is missing
	Collections []store.Collection // those that calls may name; more may be declared at a later opening
	History     int                // newest changes kept for feeds that resume; 0 means 100,000
	Readers     int                // connections for reading; 0 means two for each processor, at least 4
	CacheBytes  int                // of documents kept in memory; 0 means 32 MiB, below 0 none
	MaxBytes    int64              // size that the file may reach; 0 means as much as the disk holds
}

// Validate returns an error satisfying errors.NotValid for a missing directory,
// a number below zero, or a bad declaration.
func (c Config) Validate() error {
	if c.Dir == "" {
		return errors.NotValidf("empty data directory name")
	}
	if c.History < 0 || c.Readers < 0 || c.MaxBytes < 0 {
		return errors.NotValidf("history %d, readers %d, size limit %d: a number below zero", c.History, c.Readers, c.MaxBytes)
	}
	_, err := store.NewSchema(c.Collections)
	return errors.Trace(err)
}

// withDefaults fills in what was left zero, and makes the directory's name
// independent of the working directory.
func (c Config) withDefaults() (Config, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, errors.Trace(err)
	}
	c.Dir = dir
	if c.History == 0 {
		c.History = 100_000
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = 32 << 20
	}
	if c.Readers == 0 {
		c.Readers = max(4, 2*runtime.GOMAXPROCS(0))
	}
	return c, nil
}

// file returns the name of the database.
func (c Config) file() string { return filepath.Join(c.Dir, "slipway.db") }

// lockFile returns the name of the file that the owner holds locked.
func (c Config) lockFile() string { return filepath.Join(c.Dir, "slipway.lock") }
