package pinger_test

import (
	"testing"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/pinger"
)

// counter counts pings.
type counter int

func (c *counter) Ping()       { *c++ }
func (c *counter) Kill()       {}
func (c *counter) Wait() error { return nil }

func TestPinger(t *testing.T) {
	conn := facadetest.Connect(t, facadetest.Agent("machine-0"))
	p, err := pinger.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ping(); err != nil {
		t.Errorf("Ping of a connection that need not be pinged = %v", err)
	}
	var pings counter
	if err := conn.Resources.RegisterNamed(pinger.Resource, &pings); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := p.Ping(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Stop(); err != nil || pings != 3 {
		t.Errorf("%d pings arrived (Stop = %v), want 3", pings, err)
	}
}
