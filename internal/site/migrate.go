package site

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/migrate"
	"github.com/slipway-project/slipway/store/sqlite"
)

// quietTime is how long a store in MongoDB has to be without a change before its
// controllers count as stopped: each of them writes every beatEvery.
const quietTime = 3 * beatEvery

// MigrateOptions say where the state of a site is, and where it is to be. One of
// the two is the data directory of a controller, for its embedded store, the
// other the URL of a replica set.
type MigrateOptions struct {
	From, To string            // required
	Store    StoreSettings     // the files for the URL; its own URL is not looked at
	Say      func(text string) // is told what an operator has to do; required
}

// Validate returns an error satisfying errors.NotValid that names what is wrong.
func (o MigrateOptions) Validate() error {
	if o.From == "" || o.To == "" {
		return errors.NewNotValid(nil, "give --from STORE and --to STORE: a data directory, and a URL mongodb://HOST/DATABASE?replicaSet=NAME")
	}
	if isURL(o.From) == isURL(o.To) {
		return errors.NewNotValid(nil, "state is moved between a data directory and MongoDB: one of --from and --to is a directory, the other a URL mongodb://...")
	}
	return nil
}

func isURL(text string) bool { return strings.Contains(text, "://") }

// Migrate copies the state of a site into another store, while controllers
// serve it. When the copy has caught up, they have to be stopped. At the end the
// data directory's settings name the new store. The old one is left as it is.
// What is interrupted is begun anew the next time.
func Migrate(ctx context.Context, o MigrateOptions) (migrate.Result, error) {
	if err := o.Validate(); err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	dir, url := Dir(o.From), o.To
	if isURL(o.From) {
		dir, url = Dir(o.To), o.From
	}
	settings, err := dir.readDir()
	if err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	if isURL(o.From) {
		return fromMongo(ctx, o, dir, settings)
	}
	where := o.Store
	where.URL = url
	return toMongo(ctx, o, dir, settings, where)
}

// migrationOf returns what a migration needs to know of state.
func migrationOf(from migrate.Source, to store.Store) migrate.Config {
	return migrate.Config{
		From: from, To: to, Collections: state.Collections(), Index: state.IndexOf,
		Last: state.ControllerKey(), Mark: state.MigrationKey(),
	}
}

// explainTarget says what to do about a target that holds a site.
func explainTarget(err error, target string) error {
	if errors.Is(err, errors.AlreadyExists) {
		return errors.NewAlreadyExists(nil, fmt.Sprintf("%s holds a site already: name an empty one, or move that away", target))
	}
	return errors.Trace(err)
}

// toMongo moves the state out of a data directory.
func toMongo(ctx context.Context, o MigrateOptions, dir Dir, settings Settings, where StoreSettings) (migrate.Result, error) {
	if !settings.Store.Embedded() {
		return migrate.Result{}, errors.NewNotValid(nil, fmt.Sprintf("the state of %s is in MongoDB already, at %s", dir, settings.Store.URL))
	}
	where, err := where.absolute()
	if err == nil {
		err = where.Validate()
	}
	if err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	to, err := openStore(ctx, dir, where)
	if err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	defer to.Close()
	from, err := sqlite.OpenView(ctx, sqlite.Config{Dir: dir.Store(), Collections: state.Collections()})
	if err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	defer from.Close() // lets the next one have the old store
	c := migrationOf(from, to)
	c.Fence = func(ctx context.Context) error {
		o.Say(fmt.Sprintf("the copy has caught up: stop the controller that serves %s, if one does", dir))
		return from.Fence(ctx)
	}
	result, err := migrate.Run(ctx, c)
	if err != nil {
		return result, explainTarget(err, "the database at "+where.URL)
	}
	settings.Store = where
	return result, errors.Trace(dir.save(settings))
}

// fromMongo moves the state into the data directory of one of its controllers.
func fromMongo(ctx context.Context, o MigrateOptions, dir Dir, settings Settings) (migrate.Result, error) {
	if settings.Store.URL != o.From {
		return migrate.Result{}, errors.NewNotValid(nil, fmt.Sprintf("%s is not of a controller whose state is at %s: name the data directory of one that is", dir, o.From))
	}
	from, err := openStore(ctx, dir, settings.Store)
	if err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	defer from.Close()
	to, err := openStore(ctx, dir, StoreSettings{})
	if err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	defer to.Close()
	feed, err := from.Changes(ctx, "")
	if err != nil {
		return migrate.Result{}, errors.Trace(err)
	}
	defer feed.Close()
	c := migrationOf(from, to)
	c.Fence = func(ctx context.Context) error {
		o.Say("the copy has caught up: stop every controller of the site, if one runs")
		for {
			if err := quiet(ctx, feed, quietTime); !errors.Is(err, migrate.ErrBusy) {
				return errors.Trace(err)
			}
		}
	}
	c.Still = func(ctx context.Context) error { return quiet(ctx, feed, time.Second) }
	result, err := migrate.Run(ctx, c)
	if err != nil {
		return result, explainTarget(err, "the folder "+dir.Store())
	}
	settings.Store = StoreSettings{}
	return result, errors.Trace(dir.save(settings))
}

// quiet waits until a feed has had no change for some time. It returns ErrBusy
// at the first change.
func quiet(ctx context.Context, feed store.Feed, d time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	changes, err := feed.Next(waiting)
	switch {
	case ctx.Err() != nil:
		return errors.Trace(ctx.Err())
	case waiting.Err() != nil && len(changes) == 0:
		return nil
	case err != nil:
		return errors.Trace(err)
	}
	return errors.Trace(migrate.ErrBusy)
}

// embed copies a store that nobody writes to into a new embedded one.
func embed(ctx context.Context, from store.Store, dir string) error {
	to, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Collections: state.Collections()})
	if err != nil {
		return errors.Trace(err)
	}
	c := migrationOf(from, to)
	c.Fence = func(context.Context) error { return nil }
	_, err = migrate.Run(ctx, c)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	return errors.Trace(err)
}
