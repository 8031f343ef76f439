package mongo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/juju/errors"
	"gopkg.in/mgo.v2"
	"gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

// ErrNewer says that the store holds a format that this program does not know.
const ErrNewer = errors.ConstError("store was written by a newer version")

const (
	format = 1 // of the documents; raised by changes that older programs cannot read
	metaID = "store"

	oldestWire   = 8                      // MongoDB 4.2: change streams and transactions over all collections
	snapshotWire = 13                     // MongoDB 5.0: snapshot reads outside transactions
	dialTimeout  = 10 * time.Second       // for the first session
	dialPause    = 100 * time.Millisecond // before it is tried again

	// connectTimeout is for one connection and its handshake. The driver looks at
	// all servers at once, and not again before each has answered or failed: so it
	// bounds for how long a silent one hides a new primary.
	connectTimeout = 4 * time.Second
)

// majority is the write concern of everything that is written.
var majority = bson.D{{Name: "w", Value: "majority"}}

// meta is the document about the store.
type meta struct {
	Format  int    `bson:"format"`
	Store   string `bson:"store"`   // random; positions carry it
	Opening int64  `bson:"opening"` // how often the store was opened
	Clock   int64  `bson:"clock"`   // above all counters in revisions
}

// Open connects to the replica set, makes what is missing, and returns the
// store. The caller ends it with Close.
//
// It returns an error satisfying errors.NotValid for a bad Config,
// errors.NotSupported if the server is too old or no member of a replica set,
// errors.Unauthorized if it refuses the credentials, and ErrNewer if the store
// was written by a newer version; each is one line that says what to do.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	t, err := c.target()
	if err != nil {
		return nil, err
	}
	secure, err := c.tlsConfig(t)
	if err != nil {
		return nil, err
	}
	cred, err := c.credentials()
	if err != nil {
		return nil, err
	}
	dialer := &wire.Dialer{TLS: secure, AppName: "slipway", Timeout: connectTimeout, Dial: c.Dial, WriteLock: c.Lock}
	version, err := probe(ctx, dialer, t)
	if err != nil {
		return nil, err
	}
	session, err := dial(ctx, dialer, t, cred)
	if err != nil {
		dialer.Close()
		return nil, err
	}
	s := newStore(c, t, dialer, session)
	s.snapshots = version >= snapshotWire
	if err := s.setUp(ctx, c); err != nil {
		s.Close()
		return nil, err
	}
	s.start()
	return s, nil
}

// probe asks the servers what they are, and returns the least wire version. It
// takes one answer of a proper member as enough: the driver finds the others.
func probe(ctx context.Context, d *wire.Dialer, t target) (int, error) {
	version := 0
	var first error
	for _, addr := range t.addrs {
		h, err := d.Probe(ctx, addr)
		if err == nil {
			err = suitable(addr, h, t)
		}
		switch {
		case err == nil && (version == 0 || h.MaxWireVersion < version):
			version = h.MaxWireVersion
		case errors.Is(err, errors.NotSupported):
			return 0, err
		case err != nil && first == nil:
			first = err
		}
	}
	if version == 0 {
		return 0, errors.Annotatef(first, "cannot reach MongoDB at %s", strings.Join(t.addrs, ", "))
	}
	return version, nil
}

// suitable says in one line why a server cannot keep the store.
func suitable(addr string, h wire.Hello, t target) error {
	const how = "start mongod with --replSet rs0 and run rs.initiate() in mongosh once"
	var why string
	switch {
	case h.MaxWireVersion < oldestWire:
		why = fmt.Sprintf("is too old (wire version %d): MongoDB 4.2 or later is needed", h.MaxWireVersion)
	case h.MinWireVersion > 27:
		why = fmt.Sprintf("is too new (least wire version %d): a newer version of this program is needed", h.MinWireVersion)
	case h.Router:
		why = "is a mongos: name the members of a replica set instead, sharded clusters are not supported"
	case h.Uninitiated:
		why = "waits to become a member of a replica set: run rs.initiate() in mongosh once"
	case h.SetName == "":
		why = "is not a member of a replica set: " + how
	case t.set != "" && h.SetName != t.set:
		why = fmt.Sprintf("is a member of replica set %q, and the URL says %q", h.SetName, t.set)
	default:
		return nil
	}
	return errors.NewNotSupported(nil, fmt.Sprintf("the MongoDB server at %s %s", addr, why))
}

// dial gives the driver its first session.
func dial(ctx context.Context, d *wire.Dialer, t target, cred credentials) (*mgo.Session, error) {
	timeout := dialTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline))
	}
	info := &mgo.DialInfo{
		Addrs:          t.addrs,
		Timeout:        max(timeout, time.Millisecond),
		ReplicaSetName: t.set,
		FailFast:       true, // or else it sleeps for half a second after each look at the servers
		DialServer: func(addr *mgo.ServerAddr) (net.Conn, error) {
			return d.Conn(context.Background(), addr.String()) // bounded by d.Timeout
		},
	}
	if cred.user != "" {
		info.Username, info.Password, info.Source, info.Mechanism = cred.user, cred.password, t.authSource, "SCRAM-SHA-1"
	}
	session, err := dialUntil(ctx, info, time.Now().Add(info.Timeout))
	switch {
	case err == nil:
		session.SetSafe(nil) // commands carry their write concern themselves
		return session, nil
	case d.LastError() != nil:
		return nil, errors.Annotatef(d.LastError(), "cannot reach MongoDB at %s", strings.Join(t.addrs, ", "))
	case cred.user != "" && !isUnreachable(err):
		return nil, errors.NewUnauthorized(nil, fmt.Sprintf("MongoDB refuses user %q: check the credentials file, and that the user may log in by SCRAM-SHA-1 (%v)", cred.user, err))
	}
	return nil, errors.Annotatef(err, "cannot find the primary of the replica set at %s", strings.Join(t.addrs, ", "))
}

// dialUntil dials, again and again while there is no primary: it may be about to be
// elected.
func dialUntil(ctx context.Context, info *mgo.DialInfo, deadline time.Time) (*mgo.Session, error) {
	for {
		session, err := mgo.DialWithInfo(info)
		info.Timeout = time.Until(deadline)
		if err == nil || !isUnreachable(err) || info.Timeout <= dialPause {
			return session, err
		}
		timer := time.NewTimer(dialPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
	}
}

// isUnreachable reports whether the driver has found no primary. It has no
// other sign of it than the text, which its last version fixes for good.
func isUnreachable(err error) bool { return err.Error() == "no reachable servers" }

// setUp checks the store's format, makes collections and indexes, and
// registers this opening.
func (s *Store) setUp(ctx context.Context, c Config) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.checkFormat(ctx); err != nil {
		return err
	}
	for _, coll := range c.Collections {
		if err := s.ensureIndexes(ctx, coll.Name); err != nil {
			return errors.Annotatef(err, "cannot make the indexes of collection %s", coll.Name)
		}
	}
	return s.register(ctx)
}

// checkFormat refuses a store of a newer format before anything is written.
func (s *Store) checkFormat(ctx context.Context) error {
	var found []meta
	err := s.retry(ctx, func() (bool, error) {
		r, err := exec[meta](ctx, s, s.database, bson.D{
			{Name: "find", Value: metaCollection},
			{Name: "filter", Value: bson.D{{Name: "_id", Value: metaID}}},
			{Name: "limit", Value: 1},
			{Name: "singleBatch", Value: true},
			{Name: "readConcern", Value: bson.D{{Name: "level", Value: "majority"}}},
		})
		if err != nil {
			return lost(err), err
		}
		found = r.Cursor.FirstBatch
		return false, nil
	})
	switch code := codeOf(err); {
	case code == codeUnauthorized:
		return errors.NewUnauthorized(nil, fmt.Sprintf("MongoDB does not let us read database %s: name a credentials file of a user with role readWrite on it (%v)", s.database, err))
	case code == codeAuthFailed:
		return errors.NewUnauthorized(nil, fmt.Sprintf("MongoDB refuses the credentials (%v)", err))
	case err != nil:
		return errors.Annotatef(err, "cannot read the store's description in database %s", s.database)
	}
	if len(found) > 0 && found[0].Format > format {
		return errors.Annotatef(ErrNewer, "database %s has format %d, this program knows %d; start the newer program", s.database, found[0].Format, format)
	}
	return nil
}

// ensureIndexes makes a collection with its indexes, if it is missing.
func (s *Store) ensureIndexes(ctx context.Context, name string) error {
	index := func(name, field string, sparse bool, more ...bson.DocElem) bson.D {
		key := append(bson.D{{Name: field, Value: 1}}, more...)
		spec := bson.D{{Name: "key", Value: key}, {Name: "name", Value: name}}
		if sparse {
			spec = append(spec, bson.DocElem{Name: "sparse", Value: true})
		}
		return spec
	}
	return s.retry(ctx, func() (bool, error) {
		_, err := exec[bson.Raw](ctx, s, s.database, bson.D{
			{Name: "createIndexes", Value: name},
			{Name: "indexes", Value: []bson.D{
				index("ix", "ix", false, bson.DocElem{Name: "_id", Value: 1}),
				index("at", "at", true),
			}},
			{Name: "writeConcern", Value: majority},
		})
		return lost(err), err
	})
}

// register takes a number for this opening, and a first stretch of counters.
func (s *Store) register(ctx context.Context) error {
	identity := make([]byte, 8)
	rand.Read(identity)
	var m meta
	err := s.retry(ctx, func() (bool, error) {
		r, err := exec[meta](ctx, s, s.database, bson.D{
			{Name: "findAndModify", Value: metaCollection},
			{Name: "query", Value: bson.D{{Name: "_id", Value: metaID}}},
			{Name: "update", Value: bson.D{
				{Name: "$inc", Value: bson.D{{Name: "opening", Value: int64(1)}, {Name: "clock", Value: int64(reserve)}}},
				{Name: "$setOnInsert", Value: bson.D{{Name: "format", Value: format}, {Name: "store", Value: hex.EncodeToString(identity)}}},
			}},
			{Name: "upsert", Value: true},
			{Name: "new", Value: true},
			{Name: "writeConcern", Value: majority},
		})
		if err != nil { // a duplicate key: another process has just made the document
			return lost(err) || codeOf(err) == codeDuplicateKey, err
		}
		m = r.Value
		return false, nil
	})
	switch {
	case err != nil:
		return errors.Annotatef(err, "cannot register with the store in database %s", s.database)
	case m.Format > format:
		return errors.Annotatef(ErrNewer, "database %s has format %d, this program knows %d; start the newer program", s.database, m.Format, format)
	case m.Opening > maxOpening:
		return errors.NewNotSupported(nil, fmt.Sprintf("database %s has been opened %d times, which is the limit: move the store to a new database", s.database, m.Opening))
	}
	s.identity = m.Store
	s.clock.opening = m.Opening
	s.clock.last, s.clock.limit = m.Clock-reserve, m.Clock
	return nil
}

var _ store.Store = (*Store)(nil)
