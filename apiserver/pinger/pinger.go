// Package pinger is the facade Pinger, version 1, with which a client shows that
// it is still there.
package pinger

import "github.com/slipway-project/slipway/apiserver/common"

// Resource is the name of the resource that pings go to. Connections that need not
// be pinged have none.
const Resource = "pingTimeout"

// Pinged is told of pings.
type Pinged interface {
	common.Resource
	Ping()
}

// Pinger takes the pings of one connection.
type Pinger struct{ resources *common.Resources }

// New returns the Pinger of a connection.
func New(c common.Connection) (*Pinger, error) { return &Pinger{c.Resources}, nil }

// Ping shows that the client is still there.
func (p *Pinger) Ping() error {
	if w, ok := p.resources.Get(Resource).(Pinged); ok {
		w.Ping()
	}
	return nil
}

// Stop says that the client does without pings from now on, which changes
// nothing: it is part of the protocol by accident.
func (p *Pinger) Stop() error { return nil }
