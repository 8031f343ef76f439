package site

import (
	"context"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
)

// keyRotation follows the site's file of host keys. Whatever an older key sealed is
// sealed anew with the first one, and then the keys that are retired are dropped. The
// file alone says how far that has come, and holds every key that something in
// the store needs: so it may be broken off at any moment.
type keyRotation struct {
	tomb       tomb.Tomb
	dir        Dir
	controller *state.Controller
}

// newKeyRotation follows the file from now on.
func newKeyRotation(d Dir, c *state.Controller) *keyRotation {
	r := &keyRotation{dir: d, controller: c}
	r.tomb.Go(r.loop)
	return r
}

// Kill asks it to stop.
func (r *keyRotation) Kill() { r.tomb.Kill(nil) }

// Wait returns when it has stopped.
func (r *keyRotation) Wait() error { return r.tomb.Wait() }

func (r *keyRotation) loop() error {
	ctx := r.tomb.Context(nil)
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	var failing string // why the file cannot be followed; said once
	done := false      // the keys in use seal everything, and none is to be dropped
	for {
		var err error
		done, err = r.follow(ctx, done)
		switch {
		case err == nil:
			failing = ""
		case err.Error() != failing && r.tomb.Alive():
			failing = err.Error()
			logger.Errorf("cannot take up the keys of hosts, trying again every %v: %v", refreshEvery, err)
		}
		select {
		case <-r.tomb.Dying():
			return nil
		case <-ticker.C:
		}
	}
}

// follow takes up the keys in the file, if they are others than those in use, and
// does what is left to do with them.
func (r *keyRotation) follow(ctx context.Context, done bool) (bool, error) {
	docs := r.controller.SiteDocs()
	keys, err := hostkey.Read(r.dir.HostKeys())
	if err != nil {
		return done, errors.Trace(err)
	}
	hosts := host.New(docs)
	if !keys.Equal(docs.Keys()) {
		if err := hosts.CheckKeys(ctx, keys); err != nil {
			return done, errors.Trace(err)
		}
		docs.SetKeys(keys)
		done = false
		logger.Infof("using other keys for hosts' secrets: %d in all", keys.Len())
	}
	if done {
		return true, nil
	}
	if err := docs.Settle(ctx); err != nil { // who seals with the keys before
		return false, errors.Trace(err)
	}
	n, err := hosts.Reseal(ctx)
	if err != nil {
		return false, errors.Trace(err)
	}
	if n > 0 {
		logger.Infof("sealed %d secrets of hosts with the newest key", n)
	}
	kept, retired := keys.Kept()
	if retired == 0 {
		return true, nil
	}
	if err := hosts.CheckKeys(ctx, kept); err != nil {
		return false, errors.Annotate(err, "cannot drop the old keys yet")
	}
	if err := r.replace(keys, kept); err != nil {
		return false, errors.Annotate(err, "cannot drop the old keys yet")
	}
	docs.SetKeys(kept)
	logger.Infof("dropped %d old keys of hosts' secrets", retired)
	return true, nil
}

// replace writes keys to the file, in place of those that were read from it.
func (r *keyRotation) replace(read, keys *hostkey.Ring) error {
	unlock, err := r.dir.lock()
	if err != nil {
		return errors.Trace(err)
	}
	defer unlock()
	if now, err := hostkey.Read(r.dir.HostKeys()); err != nil || !now.Equal(read) {
		return errors.New("the file has other keys by now")
	}
	return errors.Trace(keys.Write(r.dir.HostKeys()))
}

// KeyStep is a step of the replacement of the key that seals hosts' secrets.
type KeyStep string

// The steps, in their order. A site with one controller needs none but the last.
const (
	KeyAdd    KeyStep = "add"    // a new key opens, and does not seal yet
	KeySeal   KeyStep = "seal"   // the newest key seals; the others open
	KeyFinish KeyStep = "finish" // as KeySeal, and the others go when nothing needs them
)

// RotateHostKey takes a step in replacing the key that seals hosts' secrets, in a
// directory that may be served meanwhile: its controller does the rest. A new key is
// made by KeyAdd, and by the others if there is but one.
func (d Dir) RotateHostKey(step KeyStep) error {
	if _, err := d.readDir(); err != nil {
		return errors.Trace(err)
	}
	unlock, err := d.lock() // of two new keys, one would be lost together with what it has sealed
	if err != nil {
		return errors.Trace(err)
	}
	defer unlock()
	keys, err := hostkey.Read(d.HostKeys())
	if err != nil {
		return errors.Trace(err)
	}
	if _, retired := keys.Kept(); retired > 0 {
		return errors.AlreadyExistsf("replacement of the key, which ends when the site has been served for a moment,")
	}
	switch step {
	case KeyAdd:
		if keys.Len() > 1 {
			return errors.AlreadyExistsf("second key")
		}
		keys = keys.WithSpare()
	case KeySeal, KeyFinish:
		if keys.Len() == 1 {
			keys = keys.WithSpare()
		}
		keys = keys.Promoted()
		if step == KeyFinish {
			keys = keys.Retiring()
		}
	default:
		return errors.NotValidf("step %q", step)
	}
	return errors.Trace(keys.Write(d.HostKeys()))
}
