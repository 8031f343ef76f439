package main

import (
	"context"
	"net"
	"sync/atomic"
)

// ownServer connects the agents of a rack in this process to the API server in
// this process, wherever it listens now: at the next start of a site that
// takes any port, agents know only the port of the start before.
type ownServer struct {
	addr atomic.Pointer[string] // host:port; nil until the server listens
}

// listens is told where the server is.
func (o *ownServer) listens(addr string) { o.addr.Store(&addr) }

// dial makes the TCP connection of an agent. Until the server listens, it goes
// to the address that the agent knows.
func (o *ownServer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if own := o.addr.Load(); own != nil {
		addr = *own
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}
