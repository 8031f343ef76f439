package mongo

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"
	"gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store"
)

const (
	// feedWait is how long the server may wait for a change before it answers
	// with none.
	feedWait = time.Second
	// feedBatch is how many changes one answer holds at most.
	feedBatch = 1000
)

// event is an entry of the change stream, as our pipeline projects it.
type event struct {
	Token bson.Raw `bson:"_id"`
	Type  string   `bson:"operationType"`
	NS    struct {
		Collection string `bson:"coll"`
	} `bson:"ns"`
	Key struct {
		ID string `bson:"_id"`
	} `bson:"documentKey"`
	Doc struct {
		Rev  int64 `bson:"rev"`
		Gone bool  `bson:"gone"`
	} `bson:"fullDocument"`
}

// feed reads a change stream. Nothing is read ahead: a feed that is not read
// falls behind on the server, and learns there that history is lost.
type feed struct {
	s      *Store
	closed chan struct{}
	once   sync.Once

	// Used by Next, which one goroutine calls at a time, and by the fetch that
	// it has started, while there is one.
	cursor  int64 // 0: none is open
	token   bson.Raw
	fetched chan fetched // of the fetch under way, nil if there is none
	err     error        // final
}

// fetched is what a fetch has brought.
type fetched struct {
	changes []store.Change
	err     error
}

var _ store.Feed = (*feed)(nil)

// Changes opens a feed of the changes after a position.
func (s *Store) Changes(ctx context.Context, after store.Position) (store.Feed, error) {
	call, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	f := &feed{s: s, closed: make(chan struct{})}
	if f.token, err = s.parsePosition(after); err != nil {
		return nil, err
	}
	var changes []store.Change
	err = s.retry(call, func() (bool, error) {
		changes, err = f.open(call)
		return resumable(err), err
	})
	switch {
	case err == nil:
	case errors.Is(err, store.ErrHistoryLost):
		return nil, err
	case after != "" && badToken(err):
		return nil, errors.NewNotValid(nil, "position is not one of this store")
	default:
		return nil, errors.Annotate(err, "cannot watch for changes")
	}
	if len(changes) > 0 {
		f.fetched = make(chan fetched, 1)
		f.fetched <- fetched{changes: changes}
	}
	return f, nil
}

// Next waits until at least one change is there.
func (f *feed) Next(ctx context.Context) ([]store.Change, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, errors.Trace(err)
		}
		select {
		case <-f.closed:
			return nil, store.ErrClosed
		case <-f.s.closing:
			return nil, store.ErrClosed
		default:
		}
		if f.err != nil {
			return nil, f.err
		}
		if f.fetched == nil {
			if err := f.start(); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done(): // what is being fetched waits for the next call
			return nil, errors.Trace(ctx.Err())
		case <-f.closed:
			return nil, store.ErrClosed
		case <-f.s.closing:
			return nil, store.ErrClosed
		case got := <-f.fetched:
			f.fetched = nil
			if errors.Is(got.err, store.ErrHistoryLost) {
				f.err = got.err
			}
			if got.err != nil || len(got.changes) > 0 {
				return got.changes, got.err
			}
		}
	}
}

// start begins a fetch, which lasts until the server has answered.
func (f *feed) start() error {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	ch := make(chan fetched, 1)
	f.fetched = ch
	s.running.Go(func() {
		changes, err := f.fetch()
		ch <- fetched{changes, err}
	})
	return nil
}

// fetch reads on, over lost connections and elections.
func (f *feed) fetch() (changes []store.Change, err error) {
	ctx, cancel := context.WithCancelCause(f.s.life)
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-f.closed:
		case <-f.s.closing:
		case <-stop:
		}
		cancel(store.ErrClosed)
	}()
	interrupted := false
	err = f.s.retry(ctx, func() (bool, error) {
		if f.cursor == 0 {
			changes, err = f.open(ctx)
		} else {
			changes, err = f.more(ctx)
		}
		switch {
		case resumable(err) && ctx.Err() == nil && !interrupted:
			logger.Warningf("change stream is interrupted, resuming it: %v", err)
		case err == nil && interrupted:
			logger.Infof("change stream has been resumed")
		}
		interrupted = err != nil
		if err != nil {
			f.cursor = 0
		}
		return resumable(err), err
	})
	if err != nil && !errors.Is(err, store.ErrHistoryLost) {
		err = errors.Annotate(err, "cannot read changes")
	}
	return changes, err
}

// resumable reports whether a change stream can go on from its last token.
func resumable(err error) bool {
	if errors.Is(err, store.ErrHistoryLost) {
		return false
	}
	return lost(err) || has(err, labelResumable) || codeOf(err) == codeCursorNotFound ||
		codeOf(err) == codeMaxTimeExpired || codeOf(err) == codeRetryStream
}

// badToken reports whether the server could not read a resume token.
func badToken(err error) bool {
	switch codeOf(err) {
	case 2, 9, 14, 50811, 40647, 40649, 260: // BadValue, FailedToParse, TypeMismatch, and what parsing a token gives; InvalidResumeToken
		return true
	}
	return false
}

// open opens the change stream after the token, or from now on.
func (f *feed) open(ctx context.Context) ([]store.Change, error) {
	spec := bson.D{}
	if f.token.Data != nil {
		spec = bson.D{{Name: "resumeAfter", Value: f.token}}
	}
	in := func(values ...string) bson.D { return bson.D{{Name: "$in", Value: values}} }
	keep := bson.D{}
	for _, field := range []string{"operationType", "ns", "documentKey", "fullDocument.rev", "fullDocument.gone"} {
		keep = append(keep, bson.DocElem{Name: field, Value: 1})
	}
	r, err := exec[event](ctx, f.s, f.s.database, bson.D{
		{Name: "aggregate", Value: 1}, // the whole database
		{Name: "pipeline", Value: []bson.D{
			{{Name: "$changeStream", Value: spec}},
			// What updates and deletes do is touch, and sweep up.
			{{Name: "$match", Value: bson.D{
				{Name: "operationType", Value: in("insert", "replace", "drop", "rename", "dropDatabase", "invalidate")},
			}}},
			{{Name: "$project", Value: keep}},
		}},
		{Name: "cursor", Value: bson.D{}},
		{Name: "readConcern", Value: bson.D{{Name: "level", Value: "majority"}}},
	})
	if err != nil {
		return nil, lostHistory(err)
	}
	return f.take(r, r.Cursor.FirstBatch)
}

// more asks for what follows.
func (f *feed) more(ctx context.Context) ([]store.Change, error) {
	ctx, cancel := context.WithTimeout(ctx, feedWait+10*time.Second)
	defer cancel()
	r, err := execNow[event](ctx, f.s, f.s.database, bson.D{
		{Name: "getMore", Value: f.cursor},
		{Name: "collection", Value: "$cmd.aggregate"},
		{Name: "batchSize", Value: feedBatch},
		{Name: "maxTimeMS", Value: feedWait.Milliseconds()},
	}, func() {}) // it mostly waits: it takes no turn from others
	if err != nil {
		return nil, lostHistory(err)
	}
	return f.take(r, r.Cursor.NextBatch)
}

// lostHistory turns the server's ways to say so into one.
func lostHistory(err error) error {
	switch codeOf(err) {
	case codeHistoryLost, codeStreamFatal, codeCappedPositionLost:
		return errors.Annotate(store.ErrHistoryLost, err.Error())
	}
	return err
}

// take turns events into changes, and notes how far the stream has been read.
func (f *feed) take(r *reply[event], events []event) ([]store.Change, error) {
	f.cursor = r.Cursor.ID
	var out []store.Change
	for _, e := range events {
		f.token = e.Token
		if e.Type != "insert" && e.Type != "replace" {
			if c := e.NS.Collection; c != "" && f.s.schema.CheckQuery(store.Query{Collection: c}) != nil {
				continue // another program's collection
			}
			return nil, errors.Annotatef(store.ErrHistoryLost, "%s of %s", e.Type, e.NS.Collection)
		}
		key := store.Key{Collection: e.NS.Collection, ID: e.Key.ID}
		if f.s.schema.CheckKey(key) != nil || e.Doc.Rev == 0 { // a claim that it is missing has revision 0
			continue
		}
		f.s.clock.observe(store.Rev(e.Doc.Rev))
		out = append(out, store.Change{
			Position: f.s.position(e.Token),
			Key:      key,
			Rev:      store.Rev(e.Doc.Rev),
			Removed:  e.Doc.Gone,
		})
	}
	if r.Cursor.Token.Data != nil {
		f.token = r.Cursor.Token
	}
	if f.cursor == 0 {
		return nil, errors.Annotate(store.ErrHistoryLost, "the server has ended the change stream")
	}
	return out, nil
}

// position is a resume token as the seam carries it.
func (s *Store) position(token bson.Raw) store.Position {
	return store.Position(s.identity + "." + base64.RawURLEncoding.EncodeToString(token.Data))
}

// parsePosition returns the resume token of a position, none for the empty one.
func (s *Store) parsePosition(p store.Position) (bson.Raw, error) {
	if p == "" {
		return bson.Raw{}, nil
	}
	text, ok := strings.CutPrefix(string(p), s.identity+".")
	data, err := base64.RawURLEncoding.DecodeString(text)
	var doc bson.D
	if !ok || err != nil || bson.Unmarshal(data, &doc) != nil {
		return bson.Raw{}, errors.NewNotValid(nil, "position is not one of this store")
	}
	return bson.Raw{Kind: 3, Data: data}, nil
}

// Close ends the feed.
func (f *feed) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}
