package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Transcript is a caller without a connection: it answers from a table and
// writes down what goes over the wire. Its String is for a golden file.
type Transcript struct {
	// Replies holds the JSON of the reply to each "Facade.Method"; "{}" is the
	// reply to all others. A reply that begins with "!" is an error: its code
	// and its message, parted by ": ".
	Replies map[string]string

	mu   sync.Mutex
	text strings.Builder
}

// Note writes a line into the transcript: what the client made of a reply.
func (t *Transcript) Note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(&t.text, "  "+format+"\n", args...)
}

// String returns the transcript so far.
func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Call implements api.Caller. Next waits for ctx, and neither it nor Stop is
// written down.
func (t *Transcript) Call(ctx context.Context, r rpc.Request, args, result any) error {
	switch r.Method {
	case "Next":
		<-ctx.Done()
		return ctx.Err()
	case "Stop":
		return nil
	}
	body := []byte("{}")
	if args != nil {
		var err error
		if body, err = json.Marshal(args); err != nil {
			return err
		}
	}
	reply, ok := t.Replies[r.Type+"."+r.Method]
	if !ok {
		reply = "{}"
	}
	t.mu.Lock()
	fmt.Fprintf(&t.text, "-> %s(%d).%s %s\n<- %s\n", r.Type, r.Version, r.Method, body, reply)
	t.mu.Unlock()
	if failure, ok := strings.CutPrefix(reply, "!"); ok {
		code, message, _ := strings.Cut(failure, ": ")
		return &params.Error{Message: message, Code: code}
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal([]byte(reply), result)
}
