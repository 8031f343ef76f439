package mongotest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

var logger = loggo.GetLogger("slipway.store.mongo.mongotest")

// Config says what to play. The zero value is a replica set of one member,
// without authentication and TLS.
type Config struct {
	Listen      string            // address of the first member; "" means 127.0.0.1:0, which the others always have
	Members     int               // 0 means 1; all share one memory, so every write is on a majority at once
	SetName     string            // of the replica set; "" means rs0
	Users       map[string]string // passwords by name, in database admin; nil means that no one has to log in
	TLS         *tls.Config       // nil means plain TCP
	WireVersion int               // the greatest that it announces; 0 means 21 (MongoDB 7.0)
	History     int               // changes that are kept for change streams; 0 means 20,000

	// TransactionLifetime is how long a transaction may hold what it has written, also
	// when its client is gone; transactionLifetimeLimitSeconds of MongoDB. 0 means a minute.
	TransactionLifetime time.Duration

	Standalone  bool // is no member of a replica set
	Uninitiated bool // is to become one, but was never initiated

	// Observe, when not nil, is called with each command before it runs, from
	// the goroutine of its connection.
	Observe func(cmd bson.D)
}

// Server is a running replica set.
type Server struct {
	config    Config
	tomb      tomb.Tomb
	listeners []net.Listener
	addrs     []string
	engine    *engine
	started   time.Time
	written   atomic.Int64 // writes and commits that have succeeded

	mu        sync.Mutex
	primary   int // index of a member; -1 while there is none
	reign     context.Context
	dethrone  context.CancelFunc // ends what only a primary may do
	conns     map[*conn]bool
	faults    []*Fault
	cursors   map[int64]*cursor
	cursorSeq int64
}

// Start starts the members, on free ports of the loopback interface unless
// Config says otherwise. The caller ends them with Close.
func Start(config Config) (*Server, error) {
	if config.Members == 0 {
		config.Members = 1
	}
	if config.SetName == "" {
		config.SetName = "rs0"
	}
	if config.WireVersion == 0 {
		config.WireVersion = 21
	}
	if config.TransactionLifetime == 0 {
		config.TransactionLifetime = time.Minute
	}
	if config.History == 0 {
		config.History = 20_000
	}
	s := &Server{
		config:  config,
		engine:  newEngine(config.History, config.TransactionLifetime),
		started: time.Now(),
		conns:   map[*conn]bool{},
		cursors: map[int64]*cursor{},
	}
	s.reign, s.dethrone = context.WithCancel(context.Background())
	for i := range config.Members {
		addr := "127.0.0.1:0"
		if i == 0 && config.Listen != "" {
			addr = config.Listen
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			s.closeListeners()
			return nil, errors.Annotate(err, "cannot listen")
		}
		s.addrs = append(s.addrs, l.Addr().String())
		if config.TLS != nil {
			l = tls.NewListener(l, config.TLS)
		}
		s.listeners = append(s.listeners, l)
	}
	s.tomb.Go(func() error {
		for i, l := range s.listeners {
			s.tomb.Go(func() error { return s.accept(i, l) })
		}
		<-s.tomb.Dying()
		s.closeListeners()
		s.dethrone()
		s.CutConnections()
		return nil
	})
	return s, nil
}

// Close ends all members and waits until they are gone.
func (s *Server) Close() error {
	s.tomb.Kill(nil)
	return s.tomb.Wait()
}

// Addrs returns the members' addresses, "127.0.0.1:port" each.
func (s *Server) Addrs() []string { return append([]string(nil), s.addrs...) }

// URL returns the address of a database on the replica set, without
// credentials.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "mongodb", Host: strings.Join(s.addrs, ","), Path: "/" + database}
	u.RawQuery = "replicaSet=" + s.config.SetName
	return u.String()
}

// String says what this is, for the first line of a demonstration.
func (s *Server) String() string {
	return fmt.Sprintf("wire-level double of a MongoDB replica set, %d member(s), in memory", s.config.Members)
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// accept serves the connections of one member.
func (s *Server) accept(member int, l net.Listener) error {
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.tomb.Alive() {
				return errors.Trace(err)
			}
			return nil
		}
		c := newConn(s, member, nc)
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.tomb.Go(func() error {
			defer func() {
				c.close()
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
			}()
			if !s.tomb.Alive() {
				return nil
			}
			if err := c.serve(); err != nil {
				logger.Debugf("connection of %s: %v", nc.RemoteAddr(), err)
			}
			return nil
		})
	}
}

// hello describes a member.
func (s *Server) hello(member int) bson.D {
	s.mu.Lock()
	primary := s.primary
	s.mu.Unlock()
	d := bson.New()
	switch {
	case s.config.Standalone:
		d = append(d, bson.New("ismaster", true, "isWritablePrimary", true)...)
	case s.config.Uninitiated:
		d = append(d, bson.New("ismaster", false, "isWritablePrimary", false, "secondary", false, "isreplicaset", true)...)
	default:
		hosts := bson.A{}
		for _, a := range s.addrs {
			hosts = append(hosts, a)
		}
		d = append(d, bson.New("ismaster", member == primary, "isWritablePrimary", member == primary,
			"secondary", member != primary, "setName", s.config.SetName, "setVersion", int32(1), "hosts", hosts,
			"me", s.addrs[member])...)
		if primary >= 0 {
			d = append(d, bson.New("primary", s.addrs[primary])...)
		}
	}
	return append(d, bson.New("maxBsonObjectSize", int32(16<<20), "maxMessageSizeBytes", int32(48_000_000),
		"maxWriteBatchSize", int32(100_000), "localTime", bson.DateTime(time.Now().UnixMilli()),
		"logicalSessionTimeoutMinutes", int32(30), "minWireVersion", int32(0), "maxWireVersion", int32(s.config.WireVersion),
		"readOnly", false, "helloOk", true)...)
}

// isPrimary reports whether member is the primary, and the context of its
// reign.
func (s *Server) isPrimary(member int) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reign, s.primary == member
}
