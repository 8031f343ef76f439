package apiserver

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/internal/logfile"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// maxReaders bounds how many people follow logs at once.
const maxReaders = 100

// logRoutes adds what serves logs.
func (s *Server) logRoutes() []route {
	if s.cfg.Logs == nil {
		return nil
	}
	return []route{
		{"GET /log", s.stream(s.debugLog)},
		{"GET /model/{uuid}/log", s.stream(s.debugLog)},
		{"GET /model/{uuid}/logsink", s.stream(s.logSink)},
	}
}

// stream serves a request as a stream that ends with the server. The error of
// begin is sent as its first value; without one, that is empty, and what begin
// returned goes on.
func (s *Server) stream(begin func(*http.Request, *state.State) (func(context.Context, *rpc.Stream), error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.streams.add(1) {
			http.Error(w, "apiserver shutdown in progress", http.StatusServiceUnavailable)
			return
		}
		defer s.streams.add(-1)
		stream, err := rpc.AcceptStream(w, r)
		if err != nil {
			logger.Debugf("%s: %v", host(r.RemoteAddr), err)
			return
		}
		defer stream.Close()
		ctx, cancel := context.WithCancel(s.tomb.Context(nil))
		defer cancel()
		defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
		uuid := r.PathValue("uuid")
		if uuid == "" {
			uuid = s.cfg.Controller.ControllerModelUUID()
		}
		st, err := s.cfg.Controller.State(ctx, uuid)
		if errors.Is(err, errors.NotFound) {
			err = &params.Error{Message: "unknown model: " + strconv.Quote(uuid), Code: params.CodeModelNotFound}
		}
		var use func(context.Context, *rpc.Stream)
		if err == nil {
			use, err = begin(r.WithContext(ctx), st)
		}
		sent := stream.Send(errorBody{common.ServerError(err)})
		if err != nil {
			return
		}
		if sent != nil {
			cancel() // use gives back what begin took
		}
		use(ctx, stream)
	}
}

// logRecord is a record as agents send it.
type logRecord struct {
	Time     time.Time `json:"t"`
	Module   string    `json:"m"`
	Location string    `json:"l"`
	Level    string    `json:"v"`
	Message  string    `json:"x"`
}

// logSink takes records from an agent, into the log of the model.
func (s *Server) logSink(r *http.Request, st *state.State) (func(context.Context, *rpc.Stream), error) {
	who, err := s.identifyRequest(r, st)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if !who.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	if r.URL.Query().Get("jujuclientversion") == "" {
		return nil, errors.WithType(errors.New(`missing "jujuclientversion" in URL query`), errors.BadRequest)
	}
	return func(_ context.Context, stream *rpc.Stream) {
		for {
			var q logRecord
			if err := stream.Receive(&q); err != nil {
				if err != io.EOF {
					logger.Debugf("log of %s: %v", who.tag, err)
				}
				return
			}
			err := s.cfg.Logs.Append(st.ModelUUID(), logfile.Record{
				Entity: who.tag.String(), Time: q.Time, Level: q.Level, Module: q.Module, Location: q.Location, Message: q.Message,
			})
			if err != nil {
				s.logTrouble.tell(err)
			}
		}
	}, nil
}

// debugLog sends people the log of a model that they administer; that of the
// controllers' own model is for superusers.
func (s *Server) debugLog(r *http.Request, st *state.State) (func(context.Context, *rpc.Stream), error) {
	who, err := s.identifyRequest(r, st)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if !mayRead(who.controller, who.model, st) {
		return nil, common.ErrPerm
	}
	q, err := logQuery(r)
	if err != nil {
		return nil, errors.Trace(err)
	}
	select {
	case s.logReaders <- struct{}{}:
	default:
		return nil, errors.WithType(errors.Errorf("%d people read logs already", maxReaders), errors.QuotaLimitExceeded)
	}
	return func(ctx context.Context, stream *rpc.Stream) {
		defer func() { <-s.logReaders }()
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() {
			stream.Drain()
			cancel()
		})
		running.Go(func() {
			s.whileAllowed(ctx, who, st)
			cancel()
			_ = stream.Close() // releases the drain
		})
		err := s.cfg.Logs.Read(ctx, st.ModelUUID(), q, func(r logfile.Record) error { return stream.Send(r) })
		if err != nil && ctx.Err() == nil {
			logger.Debugf("log for %s: %v", who.tag, err)
		}
		cancel()
		running.Wait()
	}, nil
}

// mayRead reports whether somebody with some access may read the log of a model.
func mayRead(site access.Controller, model access.Model, st *state.State) bool {
	return site.Includes(access.Superuser) || !st.IsControllerModel() && model.Includes(access.Admin)
}

// checkEvery is how soon after the loss of their right people lose the log.
const checkEvery = 15 * time.Second

// whileAllowed returns when a person may no longer read the log of a model, or
// ctx is done.
func (s *Server) whileAllowed(ctx context.Context, who caller, st *state.State) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		user, err := s.cfg.Controller.Users().Get(ctx, who.tag.Id())
		if err != nil || user.IsDisabled() {
			return
		}
		model, err := s.cfg.Controller.Models().Access(ctx, user.Name(), st.ModelUUID())
		if err != nil || !mayRead(user.Access(), model, st) {
			return
		}
	}
}

// logQuery reads what a request for a log asks for.
func logQuery(r *http.Request) (logfile.Query, error) {
	values := r.URL.Query()
	q := logfile.Query{
		IncludeEntity: values["includeEntity"], ExcludeEntity: values["excludeEntity"],
		IncludeModule: values["includeModule"], ExcludeModule: values["excludeModule"],
	}
	for _, p := range []struct {
		name string
		to   *int
	}{{"maxLines", &q.MaxLines}, {"backlog", &q.Backlog}} {
		text := values.Get(p.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return q, errors.Errorf("%s value %q is not a valid unsigned number", p.name, text)
		}
		*p.to = int(n)
	}
	for _, p := range []struct {
		name string
		to   *bool
	}{{"replay", &q.Replay}, {"noTail", &q.NoTail}} {
		text := values.Get(p.name)
		if text == "" {
			continue
		}
		b, err := strconv.ParseBool(text)
		if err != nil {
			return q, errors.Errorf("%s value %q is not a valid boolean", p.name, text)
		}
		*p.to = b
	}
	if text := values.Get("level"); text != "" {
		level, ok := loggo.ParseLevel(text)
		if !ok || level < loggo.TRACE || level > loggo.ERROR {
			return q, errors.Errorf(`level value %q is not one of "TRACE", "DEBUG", "INFO", "WARNING", "ERROR"`, text)
		}
		q.Level = level
	}
	return q, nil
}
