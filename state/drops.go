package state

import (
	"context"
	"strconv"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// maxDrops is how many of the newest drops of each server are kept: others read
// them within seconds.
const maxDrops = 1000

// Drop says whose connections are to end, to whichever server they go.
type Drop struct {
	ModelUUID string `json:"model,omitempty"` // of an agent; empty for a person
	Tag       string `json:"tag"`
}

// dropsDoc is what one server has told the others to drop.
type dropsDoc struct {
	Count int64  `json:"count"` // of all that there ever were
	Drops []Drop `json:"drops"` // the newest ones, oldest first
}

// AnnounceDrops tells the other servers of the site to end connections.
func (c *Controller) AnnounceDrops(ctx context.Context, server string, drops []Drop) error {
	err := updateSite(ctx, c, siteKey(dropsC, server), func(d *dropsDoc) error {
		d.Count += int64(len(drops))
		d.Drops = append(d.Drops, drops...)
		d.Drops = d.Drops[max(0, len(d.Drops)-maxDrops):]
		return nil
	})
	return errors.Annotate(err, "cannot tell other servers whose connections are to end")
}

// WatchDrops returns a watcher that fires when a server has announced drops.
func (c *Controller) WatchDrops() watcher.NotifyWatcher {
	return c.hub.watchTopic(topic{whole: dropsC})
}

// DropReader reads what other servers announce. It is used by one goroutine.
type DropReader struct {
	c    *Controller
	own  string
	seen map[string]int64 // by server
}

// NewDropReader returns a reader of what is announced from now on to the server
// with this id.
func (c *Controller) NewDropReader(ctx context.Context, own string) (*DropReader, error) {
	r := &DropReader{c: c, own: own, seen: map[string]int64{}}
	_, err := r.Next(ctx) // was for those who were here then
	return r, err
}

// Next returns what was announced since the call before.
func (r *DropReader) Next(ctx context.Context) ([]Drop, error) {
	var fresh []Drop
	seen := map[string]int64{}
	err := eachDoc(ctx, r.c.store, store.Query{Collection: dropsC}, func(d store.Doc) error {
		doc, err := decode[dropsDoc](d)
		if err != nil {
			return err
		}
		_, server := splitID(d.ID)
		seen[server] = doc.Count
		if n := min(doc.Count-r.seen[server], int64(len(doc.Drops))); n > 0 && server != r.own {
			fresh = append(fresh, doc.Drops[int64(len(doc.Drops))-n:]...)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Annotate(err, "cannot read whose connections are to end")
	}
	r.seen = seen
	return fresh, nil
}

// String names what is dropped, for logs.
func (d Drop) String() string {
	if d.ModelUUID == "" {
		return d.Tag
	}
	return d.Tag + " of model " + strconv.Quote(d.ModelUUID)
}
