package site

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// admin is the name of a site's first user.
const admin = "admin"

// BootstrapOptions say what site to prepare.
type BootstrapOptions struct {
	Dir         Dir                // required
	Name        string             // of the controller; empty means "slipway"
	Listen      string             // host:port; required
	Advertise   []string           // host or host:port; where others reach the server, beside Listen
	Registry    *environs.Registry // required
	Provider    string             // of the first models; empty means "simulated"
	ModelConfig map[string]any     // of the first models, beside the provider
	Store       StoreSettings      // where to keep the state; the zero value means in Dir
}

// Validate returns an error satisfying errors.NotValid that names what is wrong
// and what would be right.
func (o BootstrapOptions) Validate() error {
	if o.Dir == "" {
		return errors.NewNotValid(nil, "no data directory named: give --data-dir DIR")
	}
	if err := o.Store.Validate(); err != nil {
		return errors.Trace(err)
	}
	if o.Registry == nil {
		return errors.NotValidf("missing Registry")
	}
	if _, _, err := splitListen(o.Listen); err != nil {
		return errors.Trace(err)
	}
	for _, a := range o.Advertise {
		if _, err := advertised(a, 1); err != nil {
			return errors.Trace(err)
		}
	}
	if _, err := o.Registry.Provider(o.Provider); err != nil {
		return errors.NewNotValid(nil, fmt.Sprintf("there is no provider %q: use one of %s", o.Provider, strings.Join(o.Registry.Names(), ", ")))
	}
	return nil
}

// splitListen takes host:port apart.
func splitListen(text string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(text)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, errors.NewNotValid(nil, fmt.Sprintf("cannot listen on %q: give HOST:PORT, such as 127.0.0.1:17070", text))
	}
	return host, port, nil
}

// Bootstrap prepares a data directory: certificates, store, models, the first
// user and the first worker. It returns an error satisfying errors.AlreadyExists
// if a site is there already, and errors.NotValid for a directory that is not
// empty. What is interrupted is begun anew the next time.
func Bootstrap(ctx context.Context, o BootstrapOptions) error {
	if o.Name == "" {
		o.Name = "slipway"
	}
	if o.Provider == "" {
		o.Provider = "simulated"
	}
	if err := o.Validate(); err != nil {
		return errors.Trace(err)
	}
	var err error
	if o.Store, err = o.Store.absolute(); err != nil {
		return errors.Trace(err)
	}
	release, err := o.Dir.claim()
	if err != nil {
		return errors.Trace(err)
	}
	defer release()
	settings := Settings{Name: o.Name, Listen: o.Listen, Advertise: o.Advertise, Provider: o.Provider, Store: o.Store}
	if err := o.Dir.save(settings); err != nil {
		return errors.Trace(err)
	}
	certs, err := tlsfiles.Open(string(o.Dir), hosts(settings))
	if err != nil {
		return errors.Trace(err)
	}
	if err := hostkey.New().Write(o.Dir.HostKeys()); err != nil {
		return errors.Trace(err)
	}
	db, err := openStore(ctx, o.Dir, o.Store)
	if err != nil {
		return errors.Trace(err)
	}
	defer db.Close()
	settings.ControllerUUID, err = initialize(ctx, o, db, certs.AuthorityPEM())
	if errors.Is(err, errors.AlreadyExists) { // a site's own directory was refused before
		return errors.Errorf("the database at %s holds a site already: name another database; if only its preparation was interrupted, drop it and try again", o.Store.URL)
	}
	if err != nil {
		return errors.Annotatef(err, "cannot prepare %s", o.Dir)
	}
	settings.Ready = true
	return errors.Trace(o.Dir.save(settings))
}

// initialize makes the site's state, and lays down the files with which its
// first user and its first worker log in. It returns the controller's UUID.
func initialize(ctx context.Context, o BootstrapOptions, db store.Store, ca string) (string, error) {
	adminPassword, agentPassword := newPassword(), newPassword()
	nonce := "bootstrap:" + uuid.NewString()
	modelConfig := map[string]any{"type": o.Provider}
	for k, v := range o.ModelConfig {
		modelConfig[k] = v
	}
	c, err := state.Initialize(ctx, db, state.InitializeParams{
		AdminName: admin, AdminPassword: adminPassword,
		ModelConfig: modelConfig,
		Machine:     state.FirstMachine{Nonce: nonce, Password: agentPassword},
	})
	if err != nil {
		return "", errors.Trace(err)
	}
	defer c.Close()
	addresses := endpoints(o.Listen, o.Advertise, 0)
	if err := agentfile.Write(o.Dir.AgentFile(), agentfile.File{
		Tag: "machine-0", Password: agentPassword, Nonce: nonce,
		ModelUUID: c.ControllerModelUUID(), APIAddresses: addresses, CACert: ca,
	}); err != nil {
		return "", errors.Trace(err)
	}
	models, err := modelUUIDs(ctx, c)
	if err != nil {
		return "", errors.Trace(err)
	}
	err = clientstore.New(o.Dir.Client()).Set(ctx, clientstore.Site{
		Name:       o.Name,
		Controller: clientstore.Controller{UUID: c.ControllerUUID(), APIEndpoints: addresses, CACert: ca, Cloud: o.Provider},
		Account:    clientstore.Account{User: admin, Password: params.Secret(adminPassword)},
		Model:      state.DefaultModelName,
		Models:     models,
	})
	return c.ControllerUUID(), errors.Trace(err)
}

// modelUUIDs returns the UUIDs of the first models, by name.
func modelUUIDs(ctx context.Context, c *state.Controller) (map[string]string, error) {
	all, err := c.Models().All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	uuids := make(map[string]string, len(all))
	for _, m := range all {
		uuids[m.Name()] = m.UUID()
	}
	return uuids, nil
}

// newPassword returns a password of 32 characters, from 24 random bytes.
func newPassword() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// readDir reads the settings of a directory that is ready to be served. It returns
// an error satisfying ErrInUse if another process is only preparing it.
func (d Dir) readDir() (Settings, error) {
	if _, err := os.Stat(string(d)); err != nil && !os.IsNotExist(err) {
		return Settings{}, errors.Annotatef(err, "cannot use data directory %s", d)
	}
	s, err := d.settings()
	if err != nil || !s.Ready {
		if busy := d.free(); errors.Is(busy, ErrInUse) {
			return Settings{}, errors.Trace(busy)
		}
	}
	if err != nil {
		return Settings{}, errors.Trace(err)
	}
	if !s.Ready {
		return Settings{}, errors.NewNotFound(nil, fmt.Sprintf("the preparation of data directory %s was interrupted: run \"controllerd bootstrap\" again", d))
	}
	return s, nil
}
