package main

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/logs"
	"github.com/slipway-project/slipway/worker"
)

// logWriter is the name of the writer that sends messages to the controller.
const logWriter = "controller"

// sendLogs sends what this process logs to the controller, as the agent in a
// file, until the function that it returns is called.
func sendLogs(ctx context.Context, agentFile string) (func(), error) {
	w := logs.NewWriter()
	if err := loggo.RegisterWriter(logWriter, w); err != nil {
		return nil, errors.Annotate(err, "cannot send logs to the controller")
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the last words are sent too
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, func() (api.Info, error) {
			f, err := agentfile.Read(agentFile)
			return f.Info(), err
		}, api.DialOptions{Timeout: 10 * time.Second}, worker.Backoff{Min: time.Second, Max: time.Minute})
	}()
	return func() {
		_, _ = loggo.RemoveWriter(logWriter) // it is there
		cancel()
		<-done
	}, nil
}
