package testlog_test

import (
	"context"
	"testing"
	"time"

	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/internal/testlog"
)

func TestCaptureKeepsMessages(t *testing.T) {
	log := testlog.Capture(t)
	logger := loggo.GetLogger("slipway.testlog")
	logger.Debugf("count %d", 1)
	logger.Tracef("too fine")
	logger.Warningf("count %d", 2)
	want := "DEBUG slipway.testlog testlog_test.go: count 1\nWARNING slipway.testlog testlog_test.go: count 2\n"
	if got := log.String(); got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if n := len(log.Entries()); n != 2 {
		t.Errorf("len(Entries()) = %d, want 2", n)
	}
}

func TestWaitSeesALaterMessage(t *testing.T) {
	log := testlog.Capture(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	written := make(chan struct{})
	go func() {
		defer close(written)
		loggo.GetLogger("slipway.testlog").Infof("from afar")
	}()
	log.Wait(ctx.Done(), "from afar")
	<-written
}

func TestNothingIsWrittenAfterTheTest(t *testing.T) {
	var log *testlog.Log
	t.Run("inner", func(t *testing.T) {
		log = testlog.Capture(t)
		testlog.Attach(t)
		loggo.GetLogger("slipway.testlog").Infof("inside")
	})
	loggo.GetLogger("slipway.testlog").Errorf("outside")
	log.Write(loggo.Entry{Message: "late"})
	if n := len(log.Entries()); n != 1 {
		t.Errorf("after its test a log has %d messages, want 1: %s", n, log)
	}
}
