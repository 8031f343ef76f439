package site

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/state"
)

const (
	// beatEvery is how often a controller that is one of several says that it
	// is alive.
	beatEvery = 2 * time.Second
	// beatPatience is how long others wait for that before they take its
	// addresses back. Clients try all that are published, so it only saves them
	// attempts.
	beatPatience = 5 * beatEvery
	// withdrawTimeout bounds the last thing that a controller writes.
	withdrawTimeout = 3 * time.Second
)

// herald tells where the server can be reached: agents through the state, the
// site's first user and worker through their files. With several controllers it
// says again and again that this one is alive, and takes back what those that
// are gone have published.
type herald struct {
	tomb      tomb.Tomb
	state     *state.Controller
	id        string
	addresses []network.HostPort
}

// newHerald publishes where a server listens and starts a herald.
func newHerald(ctx context.Context, d Dir, c *state.Controller, settings Settings, actual string) (*herald, error) {
	_, p, err := net.SplitHostPort(actual)
	if err != nil {
		return nil, errors.Trace(err)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		return nil, errors.Trace(err)
	}
	h := &herald{state: c, id: settings.serverID(), addresses: servers(settings.Listen, settings.Advertise, port)}
	if err := c.Publish(ctx, h.id, h.addresses); err != nil {
		return nil, errors.Annotate(err, "cannot publish the server's addresses")
	}
	if settings.Store.Embedded() {
		err = h.alone(ctx)
	}
	if err == nil {
		err = h.tellFiles(ctx, d, settings, endpoints(settings.Listen, settings.Advertise, port))
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	if settings.Store.Embedded() {
		h.tomb.Go(func() error { <-h.tomb.Dying(); return nil })
	} else {
		h.tomb.Go(h.loop)
	}
	return h, nil
}

// alone takes back what other servers have published: on an embedded store
// there are none, though there may have been before the state was moved there.
func (h *herald) alone(ctx context.Context) error {
	roll := h.state.NewRoll(h.id)
	for range 2 { // the first call learns of them
		if _, err := roll.Call(ctx, time.Now(), 0); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// tellFiles notes the addresses in the files of the site's first worker and
// user: this server's first, then those of the others. Controllers that have
// joined have no such files.
func (h *herald) tellFiles(ctx context.Context, d Dir, settings Settings, own []string) error {
	if h.id != state.FirstServer {
		return nil
	}
	published, err := h.state.APIHostPorts(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	addresses := slices.Clone(own)
	for _, server := range published {
		for _, hp := range server {
			if text := net.JoinHostPort(hp.Value, strconv.Itoa(hp.Port)); !slices.Contains(addresses, text) {
				addresses = append(addresses, text)
			}
		}
	}
	agent, err := agentfile.Read(d.AgentFile())
	if err != nil {
		return errors.Trace(err)
	}
	agent.APIAddresses = addresses
	if err := agentfile.Write(d.AgentFile(), agent); err != nil {
		return errors.Trace(err)
	}
	err = clientstore.New(d.Client()).Update(ctx, func(all *clientstore.Contents) error {
		mine, ok := all.Controllers[settings.Name]
		if !ok {
			return errors.NotFoundf("controller %q in %s", settings.Name, d.Client())
		}
		mine.APIEndpoints = addresses
		all.Controllers[settings.Name] = mine
		return nil
	})
	return errors.Annotate(err, "cannot tell the site's first user where the server is")
}

// Kill asks the herald to stop.
func (h *herald) Kill() { h.tomb.Kill(nil) }

// Wait returns when the herald has stopped.
func (h *herald) Wait() error { return h.tomb.Wait() }

// loop says that the server is alive until it is to end, and then that it is
// not.
func (h *herald) loop() error {
	ctx := h.tomb.Context(nil)
	roll := h.state.NewRoll(h.id)
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		gone, err := h.beat(ctx, roll)
		if err != nil && h.tomb.Alive() {
			logger.Warningf("not known to be alive, trying again in %v: %v", beatEvery, err)
		}
		if len(gone) > 0 {
			logger.Warningf("controller %s has not been heard of for %v: its addresses are no longer published", strings.Join(gone, ", "), beatPatience)
		}
		select {
		case <-ticker.C:
		case <-h.tomb.Dying():
			return h.withdraw()
		}
	}
}

func (h *herald) beat(ctx context.Context, roll *state.Roll) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, beatPatience)
	defer cancel()
	if err := h.state.Beat(ctx, h.id, h.addresses); err != nil {
		return nil, errors.Trace(err)
	}
	return roll.Call(ctx, time.Now(), beatPatience)
}

// withdraw takes the addresses back, so that nobody tries them in vain.
func (h *herald) withdraw() error {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	return errors.Trace(h.state.Withdraw(ctx, h.id))
}
