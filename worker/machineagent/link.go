package machineagent

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agent"
	"github.com/slipway-project/slipway/api/machiner"
	"github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// Connection is what other work is done over; *api.Conn is one.
type Connection interface {
	api.Caller
	Addrs() []string // of the controllers, host:port each; the one in use comes first
	ModelUUID() string
	ControllerUUID() string
}

var _ Connection = (*api.Conn)(nil)

// link is a connection to a controller that is logged in.
type link interface {
	machine
	directory
	Connection

	SetPassword(ctx context.Context, password params.Secret) error
	CACert() string // PEM, whom to trust from now on
	Broken() <-chan struct{}
	Close() error
}

// machine is what the agent tells and learns of its machine.
type machine interface {
	Watch(ctx context.Context) (watcher.NotifyWatcher, error)
	Life(ctx context.Context) (life.Value, error)
	SetAddresses(ctx context.Context, addresses []network.Address) error
	SetStatus(ctx context.Context, s status.Status, message string, data map[string]any) error
	EnsureDead(ctx context.Context) error
}

// directory is what the agent learns of where the controllers are, host:port
// each.
type directory interface {
	WatchAPIHostPorts(ctx context.Context) (watcher.NotifyWatcher, error)
	APIAddresses(ctx context.Context) ([]string, error)
}

// conn is a link over the API.
type conn struct {
	*api.Conn
	machine
	agent     *agent.Client
	addresses *provisioner.Client
}

var _ link = (*conn)(nil)

func dialAPI(ctx context.Context, info api.Info, o api.DialOptions) (link, error) {
	info.Purpose = "machine agent"
	c, err := api.Open(ctx, info, o)
	if err != nil {
		return nil, errors.Trace(err)
	}
	id, _ := api.MachineID(info.Tag)
	return &conn{Conn: c, machine: machiner.New(c, id), agent: agent.New(c, info.Tag), addresses: provisioner.New(c)}, nil
}

// SetPassword implements link.
func (c *conn) SetPassword(ctx context.Context, password params.Secret) error {
	return c.agent.SetPassword(ctx, password)
}

// WatchAPIHostPorts implements directory.
func (c *conn) WatchAPIHostPorts(ctx context.Context) (watcher.NotifyWatcher, error) {
	return c.addresses.WatchAPIHostPorts(ctx)
}

// APIAddresses implements directory.
func (c *conn) APIAddresses(ctx context.Context) ([]string, error) {
	return c.addresses.APIAddresses(ctx)
}
