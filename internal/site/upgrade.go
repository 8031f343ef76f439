package site

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// Backups returns the folder of the backups that are made before an upgrade.
func (d Dir) Backups() string { return d.join("backups") }

// upgrade brings state that an older version wrote up to date. Before that it
// makes a backup, which has secrets and no passphrase, and so stays in the
// data directory.
func upgrade(ctx context.Context, d Dir, settings Settings, registry *environs.Registry, db store.Store) error {
	found, current, err := state.FormatOf(ctx, db)
	if err != nil || found >= current {
		return nil // opening the state tells what is wrong
	}
	if err := os.Mkdir(d.Backups(), 0o700); err != nil && !os.IsExist(err) {
		return errors.Annotate(err, "cannot back up before an upgrade")
	}
	name := fmt.Sprintf("%s/format-%d-%s.backup", d.Backups(), found, time.Now().UTC().Format("20060102T150405Z"))
	o := BackupOptions{Dir: d, Out: name, Registry: registry, Secrets: true}
	var other store.Store
	if !settings.Store.Embedded() {
		other = db // its controllers are stopped for the upgrade
	}
	if err := o.write(ctx, settings, other); err != nil {
		return errors.Annotate(err, "cannot back up before an upgrade")
	}
	logger.Infof("state has format %d: backed up to %s, upgrading to format %d", found, name, current)
	return errors.Trace(state.Upgrade(ctx, db))
}
