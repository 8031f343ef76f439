package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
)

func TestServesAReplicaSetUntilItIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--listen", "127.0.0.1:0", "--members", "3"}, w, io.Discard)
		w.CloseWithError(err)
		done <- err
	}()
	lines := bufio.NewScanner(r)
	lines.Scan()
	if !strings.Contains(lines.Text(), "no MongoDB") {
		t.Errorf("first line = %q, want what this is", lines.Text())
	}
	lines.Scan()
	addrs, ok := strings.CutPrefix(lines.Text(), "ready ")
	if !ok || strings.Count(addrs, ",") != 2 {
		t.Fatalf("second line = %q, want ready and three addresses", lines.Text())
	}
	s, err := mongo.Open(t.Context(), mongo.Config{
		URL:         "mongodb://" + addrs + "/slipway?replicaSet=rs0",
		Collections: []store.Collection{{Name: "things"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{Collection: "things", ID: "1"}
	if err := s.Apply(t.Context(), []store.Op{store.Insert(key, []byte("{}"), nil)}); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}

func TestRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, args := range [][]string{{"--nope"}, {"argument"}, {"--members", "0"}} {
		var stderr bytes.Buffer
		if err := run(t.Context(), args, io.Discard, &stderr); !errors.Is(err, errUsage) || stderr.Len() == 0 {
			t.Errorf("run(%q) = %v saying %q, want usage and why", args, err, &stderr)
		}
	}
	if err := run(t.Context(), []string{"--listen", "nowhere:-1"}, io.Discard, io.Discard); err == nil {
		t.Error("a bad address was taken")
	}
}
