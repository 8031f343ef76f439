package hostkeeper

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker/hostmanager"
)

// reader is what the controller tells.
type reader interface {
	Watch(ctx context.Context) (watcher.StringsWatcher, error)
	Managed(ctx context.Context, names []string) ([]params.ManagedHost, error)
	Data(ctx context.Context, name string) (params.HostData, error)
}

// Client is what the controller is asked; see package api/hosts.
type Client interface {
	reader
	Intend(ctx context.Context, intents ...params.HostIntent) ([]error, error)
	Save(ctx context.Context, updates ...params.HostUpdate) ([]error, error)
	Forget(ctx context.Context, names ...string) ([]error, error)
}

// Store is the host manager's store at a controller. Hosts are known by their
// names. What is written while a call is under way goes with the next one.
type Store struct {
	client  Client
	intents batcher[params.HostIntent]
	updates batcher[params.HostUpdate]
	gone    batcher[string]
}

// NewStore returns a store. Its connection has to hold the site's lease.
func NewStore(c Client) *Store {
	s := &Store{client: c}
	s.intents.send = c.Intend
	s.updates.send = c.Save
	s.gone.send = c.Forget
	return s
}

var _ hostmanager.Store = (*Store)(nil)

// owned turns the loss of the lease into what the manager knows it by.
func owned(err error) error {
	if errors.Is(err, kind.LeaseDenied) {
		return errors.WithType(err, hostmanager.ErrNotOwner)
	}
	return errors.Trace(err)
}

// WatchHosts is described by hostmanager.Store.
func (s *Store) WatchHosts(ctx context.Context) (watcher.StringsWatcher, error) {
	w, err := s.client.Watch(ctx)
	return w, owned(err)
}

// Hosts is described by hostmanager.Store.
func (s *Store) Hosts(ctx context.Context, ids []string) ([]hostmanager.Record, error) {
	found, err := s.client.Managed(ctx, ids)
	if err != nil {
		return nil, owned(err)
	}
	records := make([]hostmanager.Record, len(found))
	for i, h := range found {
		host := new(metal3v1alpha1.BareMetalHost)
		if err := json.Unmarshal(h.Record, host); err != nil {
			return nil, errors.Annotatef(err, "cannot read host %q", h.Name)
		}
		records[i] = hostmanager.Record{
			ID: h.Name, Host: host, Progress: hostmanager.Progress(h.Progress),
			Credentials:        bmc.Credentials{Username: string(h.Credentials.Username), Password: string(h.Credentials.Password)},
			CredentialsVersion: strconv.Itoa(h.CredentialsVersion),
			Retries:            h.Retries, Force: h.Force,
		}
		records[i].Config = &configData{client: s.client, name: h.Name}
		if h.ForeignFor > 0 {
			records[i].ForeignUntil = time.Now().Add(h.ForeignFor)
		}
	}
	return records, nil
}

// Intend is described by hostmanager.Store. The controller counts by its own
// clock.
func (s *Store) Intend(ctx context.Context, id string, until time.Time) error {
	return owned(s.intents.do(ctx, params.HostIntent{Name: id, For: time.Until(until)}))
}

// Save is described by hostmanager.Store.
func (s *Store) Save(ctx context.Context, id string, update hostmanager.Update) error {
	status, err := json.Marshal(update.Status)
	if err != nil {
		return errors.Annotatef(err, "cannot encode the status of host %q", id)
	}
	u := params.HostUpdate{Name: id, Status: status, Progress: params.HostProgress(update.Progress), ClearAnnotations: update.ClearAnnotations}
	for _, e := range update.Events {
		u.Events = append(u.Events, params.HostEvent(e))
	}
	return owned(s.updates.do(ctx, u))
}

// Remove is described by hostmanager.Store. The last events are for the log: the
// record that would hold them goes.
func (s *Store) Remove(ctx context.Context, id string, events []hostmanager.Event) error {
	for _, e := range events {
		logger.Infof("host %s: %s: %s", id, e.Reason, e.Message)
	}
	return owned(s.gone.do(ctx, id))
}

// dataTimeout bounds one call that reads a host's data.
const dataTimeout = time.Minute

// configData is what a machine on a host is configured with. It is asked for when
// it is read, and not kept.
type configData struct {
	client Client
	name   string
}

var _ provisioner.HostConfigData = (*configData)(nil)

func (c *configData) read() (params.HostData, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dataTimeout)
	defer cancel()
	d, err := c.client.Data(ctx, c.name)
	return d, owned(err)
}

// UserData is described by provisioner.HostConfigData.
func (c *configData) UserData() (string, error) {
	d, err := c.read()
	return string(d.UserData), err
}

// NetworkData is described by provisioner.HostConfigData.
func (c *configData) NetworkData() (string, error) {
	d, err := c.read()
	return string(d.NetworkData), err
}
