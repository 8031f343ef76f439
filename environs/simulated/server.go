package simulated

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/atomicfile"
)

// Token returns the bearer token of the rack whose data directory is dir, which
// is made, with a token in it, if it is not there. Only its owner can read
// the file, rack.token.
func Token(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", errors.Annotate(err, "cannot make token of rack")
	}
	path := filepath.Join(dir, "rack.token")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = []byte(rand.Text() + rand.Text())
		err = atomicfile.WriteFunc(path, 0o600, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, string(data))
			return err
		})
	}
	if err != nil {
		return "", errors.Annotate(err, "cannot read token of rack")
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 16 {
		return "", errors.NotValidf("%s: token of less than 16 characters", path)
	}
	return token, nil
}

// server is a rack behind HTTP.
type server struct {
	rack  *Rack
	token string
}

// NewServer returns the HTTP interface of a rack, for those who know token. It
// carries agents' passwords, so it belongs on loopback or a network of its own.
func NewServer(rack *Rack, token string) http.Handler {
	s := &server{rack, token}
	mux := http.NewServeMux()
	handle(mux, "GET "+pathRack, func(ctx context.Context, _ struct{}) (Description, error) { return rack.Describe(ctx) })
	handle(mux, "GET "+pathBehaviour, func(ctx context.Context, _ struct{}) (Behaviour, error) { return rack.Behaviour(ctx) })
	handle(mux, "PUT "+pathBehaviour, func(ctx context.Context, b Behaviour) (struct{}, error) {
		return struct{}{}, rack.SetBehaviour(ctx, b)
	})
	handle(mux, "POST "+pathFaults, func(ctx context.Context, f MachineFault) (struct{}, error) {
		return struct{}{}, rack.AddFault(ctx, f)
	})
	handle(mux, "POST "+pathStart, rack.Start)
	handle(mux, "POST "+pathList, rack.List)
	handle(mux, "POST "+pathStop, s.stop)
	return s.authenticate(mux)
}

// stop answers a StopRequest: one entry for each instance, even if all of
// them failed.
func (s *server) stop(ctx context.Context, q StopRequest) (stopReply, error) {
	results, err := s.rack.Stop(ctx, q)
	reply := stopReply{Results: make([]*wireError, len(results))}
	for i, err := range results {
		reply.Results[i], _ = toWire(err)
	}
	return reply, err
}

// authenticate lets through only requests with the token.
func (s *server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			answer(w, nil, errors.Unauthorizedf("wrong token for the rack"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// handle has a request decoded, answered by f, and the answer encoded.
func handle[Q, A any](mux *http.ServeMux, pattern string, f func(context.Context, Q) (A, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if r.Method != http.MethodGet {
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q); err != nil {
				answer(w, nil, errors.NewNotValid(nil, "malformed request: "+err.Error()))
				return
			}
		}
		a, err := f(r.Context(), q)
		answer(w, a, err)
	})
}

// answer writes a, or err with the HTTP status of its kind.
func answer(w http.ResponseWriter, a any, err error) {
	w.Header().Set("Content-Type", "application/json")
	wire, code := toWire(err)
	if wire != nil {
		a = wire
	}
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(a); err != nil {
		logger.Debugf("cannot answer: %v", err) // the client has gone
	}
}
