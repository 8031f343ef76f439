package mongo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/juju/errors"
	"gopkg.in/mgo.v2"
	"gopkg.in/mgo.v2/bson"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

// The server's error codes that the store tells apart, from MongoDB's
// error_codes.yml.
const (
	codeUnauthorized        = 13
	codeAuthFailed          = 18
	codeCursorNotFound      = 43
	codeMaxTimeExpired      = 50
	codeWriteConcernTimeout = 64
	codeCappedPositionLost  = 136
	codeWriteConflict       = 112
	codeRetryStream         = 234
	codeSnapshotTooOld      = 239
	codeSnapshotUnavailable = 246
	codeStreamFatal         = 280
	codeHistoryLost         = 286
	codeDuplicateKey        = 11000
	codeDuplicateKeyUpdate  = 11001
)

// maxTime is the longest time limit that is sent: the server takes 31 bits of
// milliseconds.
const maxTime = time.Hour

// syncTimeout is how long a command waits for a primary before it counts as
// lost, to be tried again.
const syncTimeout = 2 * time.Second

// The error labels of MongoDB's transactions and retryable writes.
const (
	labelTransient = "TransientTransactionError"
	labelUnknown   = "UnknownTransactionCommitResult"
	labelRetryable = "RetryableWriteError"
	labelResumable = "ResumableChangeStreamError"
)

// reply is the answer to a command; R is what its cursor holds.
type reply[R any] struct {
	OK                float64  `bson:"ok"`
	Code              int      `bson:"code"`
	Message           string   `bson:"errmsg"`
	Labels            []string `bson:"errorLabels"`
	N                 int      `bson:"n"`
	WriteErrors       []failed `bson:"writeErrors"`
	WriteConcernError *failed  `bson:"writeConcernError"`
	Value             R        `bson:"value"` // of findAndModify
	Cursor            struct {
		ID         int64               `bson:"id"`
		FirstBatch []R                 `bson:"firstBatch"`
		NextBatch  []R                 `bson:"nextBatch"`
		At         bson.MongoTimestamp `bson:"atClusterTime"`
		Token      bson.Raw            `bson:"postBatchResumeToken"`
	} `bson:"cursor"`
}

// failed is a statement, or a write concern, that did not work.
type failed struct {
	Code    int    `bson:"code"`
	Message string `bson:"errmsg"`
}

// serverError is a command that the server refused. Anything else that goes
// wrong with a command is a lost connection, or has the same consequences.
type serverError struct {
	code    int
	message string
	labels  []string
}

func (e *serverError) Error() string { return fmt.Sprintf("%s (code %d)", e.message, e.code) }

// has reports whether err is the server's and carries a label.
func has(err error, label string) bool {
	var se *serverError
	if !errors.As(err, &se) {
		return false
	}
	for _, l := range se.labels {
		if l == label {
			return true
		}
	}
	return false
}

// codeOf returns the server's error code, 0 if err is not the server's.
func codeOf(err error) int {
	var se *serverError
	if errors.As(err, &se) {
		return se.code
	}
	return 0
}

// lost reports whether the answer to a command never came, or came from a
// server that is no longer primary: it may have run or not, and another server
// may have to be asked.
func lost(err error) bool {
	var se *serverError
	if !errors.As(err, &se) {
		return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, store.ErrClosed)
	}
	return wire.IsNotPrimary(se.code) || has(err, labelRetryable) || isPassing(se.code)
}

// isPassing reports whether an error code means that the server could not be
// reached, or could not answer, just now. Servers before 4.4 do not label
// them: HostUnreachable, HostNotFound, NetworkTimeout, FailedToSatisfyReadPreference,
// ReadConcernMajorityNotAvailableYet, ExceededTimeLimit, SocketException.
func isPassing(code int) bool {
	switch code {
	case 6, 7, 89, 133, 134, 262, 9001:
		return true
	}
	return false
}

// exec runs a command and decodes its answer, once fewer than the greatest
// number of operations are under way. It returns what execNow returns.
func exec[R any](ctx context.Context, s *Store, db string, cmd bson.D) (*reply[R], error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, s.ended(ctx)
	}
	return execNow[R](ctx, s, db, cmd, func() { <-s.slots })
}

// execNow runs a command and decodes its answer. It adds the time limit of
// ctx. It returns a *serverError when the server refuses; a write concern that
// failed counts as such. When ctx ends first, the command may run on for as
// long as the server was allowed to. After it, done is called.
func execNow[R any](ctx context.Context, s *Store, db string, cmd bson.D, done func()) (*reply[R], error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(s.timeout)
	}
	left := time.Until(deadline)
	if left <= 0 {
		done()
		return nil, context.DeadlineExceeded
	}
	if cmd[0].Name != "getMore" { // a cursor keeps the limit of its find; streams set their own
		cmd = append(cmd, bson.DocElem{Name: "maxTimeMS", Value: max(1, min(left, maxTime).Milliseconds())})
	}
	type outcome struct {
		r   *reply[R]
		err error
	}
	answered := make(chan outcome, 1)
	s.running.Go(func() {
		defer done()
		// The server's limit comes first; the grace is for its answer.
		r, err := send[R](s, db, cmd, left+time.Second)
		answered <- outcome{r, err}
	})
	select {
	case o := <-answered:
		return o.r, o.err
	case <-ctx.Done():
		return nil, s.ended(ctx)
	}
}

// send runs a command on a session of its own: a session is dead after a lost
// connection.
func send[R any](s *Store, db string, cmd bson.D, limit time.Duration) (*reply[R], error) {
	session, err := s.newSession()
	if err != nil {
		return nil, err
	}
	defer session.Close()
	session.SetSyncTimeout(min(limit, syncTimeout))
	session.SetSocketTimeout(limit)
	r := new(reply[R])
	err = session.DB(db).Run(cmd, r)
	if qe, ok := err.(*mgo.QueryError); ok {
		code := r.Code
		if code == 0 {
			code = qe.Code
		}
		return r, &serverError{code, qe.Message, r.Labels}
	}
	if err != nil {
		return nil, err
	}
	if e := r.WriteConcernError; e != nil {
		return r, &serverError{e.Code, e.Message, r.Labels}
	}
	return r, nil
}

// retry calls f until it succeeds, fails for good, or ctx ends. f says whether
// its error may be tried again.
func (s *Store) retry(ctx context.Context, f func() (again bool, err error)) error {
	for attempt := 0; ; attempt++ {
		again, err := f()
		if err == nil || !again {
			return s.told(ctx, err)
		}
		logger.Debugf("attempt %d: %v", attempt+1, err)
		timer := time.NewTimer(rand.N(min(time.Duration(1)<<min(attempt, 10)*time.Millisecond, 200*time.Millisecond)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Annotatef(s.ended(ctx), "last failure: %v", err)
		}
	}
}

// told turns the server's own time limit into the context's error, which it
// came from.
func (s *Store) told(ctx context.Context, err error) error {
	if code := codeOf(err); code == codeMaxTimeExpired || code == codeWriteConcernTimeout {
		if s.ended(ctx) == nil {
			return errors.Annotate(context.DeadlineExceeded, err.Error())
		}
		return errors.Annotate(s.ended(ctx), err.Error())
	}
	return err
}

// ended returns why ctx has ended, nil if it has not.
func (s *Store) ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), store.ErrClosed) {
		return store.ErrClosed
	}
	return ctx.Err()
}
