package mongotest

import (
	"context"
	"strings"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// call is one command that runs.
type call struct {
	server  *Server
	e       *engine
	conn    *conn
	ctx     context.Context
	name    string
	db      string
	cmd     bson.D
	session *session
	txn     *txn
	wrote   bool
}

// where says which members run a command.
type where int

const (
	anywhere where = iota
	onPrimary
	onRead // on the primary, and on others if the client says so
)

// command is one row of the table of commands.
type command struct {
	run      func(*call) (bson.D, *cmdError)
	where    where
	anyone   bool // before logging in, too
	unlocked bool // takes the engine's lock itself, or needs none
}

// commands are all that the double knows.
var commands = map[string]command{
	"hello":             {run: hello, anyone: true, unlocked: true},
	"isMaster":          {run: hello, anyone: true, unlocked: true},
	"ismaster":          {run: hello, anyone: true, unlocked: true},
	"ping":              {run: nothing, anyone: true, unlocked: true},
	"buildInfo":         {run: buildInfo, anyone: true, unlocked: true},
	"saslStart":         {run: saslStart, anyone: true, unlocked: true},
	"saslContinue":      {run: saslContinue, anyone: true, unlocked: true},
	"logout":            {run: logout, anyone: true, unlocked: true},
	"endSessions":       {run: endSessions},
	"find":              {run: find, where: onRead},
	"count":             {run: count, where: onRead},
	"aggregate":         {run: aggregate, where: onRead},
	"getMore":           {run: getMore, unlocked: true},
	"killCursors":       {run: killCursors, unlocked: true},
	"insert":            {run: insert, where: onPrimary},
	"update":            {run: update, where: onPrimary},
	"delete":            {run: remove, where: onPrimary},
	"findAndModify":     {run: findAndModify, where: onPrimary},
	"create":            {run: create, where: onPrimary},
	"createIndexes":     {run: createIndexes, where: onPrimary},
	"listCollections":   {run: listCollections, where: onRead},
	"listIndexes":       {run: listIndexes, where: onRead},
	"drop":              {run: drop, where: onPrimary},
	"dropDatabase":      {run: dropDatabase, where: onPrimary},
	"commitTransaction": {run: endTransaction, where: onPrimary},
	"abortTransaction":  {run: endTransaction, where: onPrimary},
}

// quiet are the commands that a fault for any command leaves alone.
var quiet = map[string]bool{
	"hello": true, "isMaster": true, "ismaster": true, "ping": true, "saslStart": true, "saslContinue": true,
	"logout": true, "endSessions": true, "buildInfo": true,
}

func hello(c *call) (bson.D, *cmdError) { return c.server.hello(c.conn.member), nil }

func nothing(*call) (bson.D, *cmdError) { return bson.New(), nil }

func buildInfo(*call) (bson.D, *cmdError) {
	return bson.New("version", "0.0.0", "gitVersion", "a double, not MongoDB", "maxBsonObjectSize", int32(16<<20)), nil
}

func endSessions(c *call) (bson.D, *cmdError) {
	list, _ := get(c.cmd, "endSessions").(bson.A)
	for _, v := range list {
		lsid, _ := v.(bson.D)
		key := string(bson.Marshal(lsid))
		if s := c.e.sessions[key]; s != nil {
			if s.txn != nil {
				c.e.abort(s.txn)
			}
			delete(c.e.sessions, key)
		}
	}
	return bson.New(), nil
}

// namespace returns the namespace that the command's first value names.
func (c *call) namespace() (string, *cmdError) {
	name, ok := c.cmd[0].V.(string)
	if !ok || name == "" || strings.ContainsAny(name, "$\x00") {
		return "", failf(codeInvalidNamespace, "invalid collection name in %s", c.name)
	}
	return c.db + "." + name, nil
}

func create(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	if c.e.coll(ns, false) != nil {
		return nil, failf(codeNamespaceExists, "collection %s already exists", ns)
	}
	c.e.coll(ns, true)
	return bson.New(), nil
}

func createIndexes(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	coll := c.e.coll(ns, true)
	specs, _ := get(c.cmd, "indexes").(bson.A)
	before := len(coll.indexes) + 1 // there is always one on _id
next:
	for _, v := range specs {
		spec, _ := v.(bson.D)
		for _, e := range spec {
			switch e.K {
			case "key", "name", "v", "background", "sparse":
			default:
				return nil, failf(codeNotImplemented, "the double knows no index option '%s'", e.K)
			}
		}
		key, _ := get(spec, "key").(bson.D)
		name, _ := get(spec, "name").(string)
		if len(key) == 0 || name == "" {
			return nil, failf(codeFailedToParse, "an index needs a key and a name")
		}
		for _, ix := range coll.indexes {
			if get(ix.spec, "name") == name {
				continue next
			}
		}
		coll.addIndex(bson.New("v", int32(2), "key", key, "name", name), key[0].K)
	}
	return bson.New("numIndexesBefore", int32(before), "numIndexesAfter", int32(len(coll.indexes)+1)), nil
}

func listIndexes(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	coll := c.e.coll(ns, false)
	if coll == nil {
		return nil, failf(codeNamespaceNotFound, "ns does not exist: %s", ns)
	}
	batch := bson.A{bson.New("v", int32(2), "key", bson.New("_id", int32(1)), "name", "_id_")}
	for _, ix := range coll.indexes {
		batch = append(batch, ix.spec)
	}
	return wholeCursor(ns, batch), nil
}

func listCollections(c *call) (bson.D, *cmdError) {
	batch := bson.A{}
	for ns := range c.e.colls {
		if name, ok := strings.CutPrefix(ns, c.db+"."); ok {
			batch = append(batch, bson.New("name", name, "type", "collection", "options", bson.New(),
				"info", bson.New("readOnly", false)))
		}
	}
	return wholeCursor(c.db+".$cmd.listCollections", batch), nil
}

// wholeCursor is the answer of a command whose one batch holds everything.
func wholeCursor(ns string, batch bson.A) bson.D {
	return bson.New("cursor", bson.New("firstBatch", batch, "id", int64(0), "ns", ns))
}

func drop(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	if c.e.coll(ns, false) == nil {
		return nil, failf(codeNamespaceNotFound, "ns not found")
	}
	c.e.dropCollection(ns)
	return bson.New("ns", ns), nil
}

func dropDatabase(c *call) (bson.D, *cmdError) {
	for ns := range c.e.colls {
		if strings.HasPrefix(ns, c.db+".") {
			c.e.dropCollection(ns)
		}
	}
	c.e.seq++
	c.e.log.add(change{seq: c.e.seq, op: "dropDatabase", ns: c.db + "."})
	c.e.log.publish()
	return bson.New("dropped", c.db), nil
}

// dropCollection forgets a collection, and the transactions that wrote to it.
func (e *engine) dropCollection(ns string) {
	for t := range e.txns {
		for _, w := range t.writes {
			if w.coll.ns == ns {
				e.abort(t)
				break
			}
		}
	}
	delete(e.colls, ns)
	e.seq++
	e.log.add(change{seq: e.seq, op: "drop", ns: ns})
	e.log.publish()
}
