package site_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/logs"
)

func TestControllersKeepTheirOwnLog(t *testing.T) {
	s := begin(t, nil)
	for _, e := range []loggo.Entry{
		{Level: loggo.INFO, Module: "slipway.logfile", Message: "left out", Timestamp: time.Now()},
		{Level: loggo.WARNING, Module: "slipway.state", Filename: "/src/hub.go", Line: 3, Message: "kept", Timestamp: time.Now()},
	} {
		s.LogWriter().Write(e)
	}
	conn, err := s.connect(t, "admin", s.known.Account.Password, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info := api.Info{Addrs: []string{s.Addr()}, CACert: s.known.Controller.CACert, Tag: "user-admin", Password: s.known.Account.Password}
	var got logs.Record
	err = logs.Read(ctx, info, api.DialOptions{}, logs.Query{Replay: true, MaxLines: 1}, func(r logs.Record) error {
		got = r
		return nil
	})
	if err != nil || got.Message != "kept" || got.Location != "hub.go:3" || got.Entity != "controller-"+conn.ControllerUUID() || !strings.HasPrefix(got.Module, "slipway.state") {
		t.Errorf("own log = %+v, %v", got, err)
	}
}
