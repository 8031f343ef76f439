package rest

import (
	"context"
	"net/http"
	"net/url"
	"path"

	"github.com/juju/errors"
)

// Server is what a daemon says of itself.
type Server struct {
	Auth        string `json:"auth"` // trusted or untrusted
	Environment struct {
		Architectures []string `json:"architectures"` // as uname -m says it
		ServerVersion string   `json:"server_version"`
	} `json:"environment"`
}

// Server asks the daemon about itself. It returns an error satisfying
// errors.Unauthorized if the daemon does not trust the client.
func (c *Client) Server(ctx context.Context) (Server, error) {
	var out Server
	if err := c.get(ctx, "/1.0", nil, &out); err != nil {
		return Server{}, err
	}
	if out.Auth != "trusted" {
		return Server{}, errors.WithType(errors.New("LXD does not trust this client's certificate"), errors.Unauthorized)
	}
	return out, nil
}

// Resources are what the daemon's machine has.
type Resources struct {
	CPU struct {
		Total uint64 `json:"total"` // threads
	} `json:"cpu"`
	Memory struct {
		Total uint64 `json:"total"` // bytes
	} `json:"memory"`
}

// Resources returns what the daemon's machine has.
func (c *Client) Resources(ctx context.Context) (Resources, error) {
	var out Resources
	err := c.get(ctx, "/1.0/resources", nil, &out)
	return out, err
}

// Profile is a set of settings that instances share.
type Profile struct {
	Devices Devices `json:"devices"`
}

// Profile returns a profile, or an error satisfying errors.NotFound.
func (c *Client) Profile(ctx context.Context, name string) (Profile, error) {
	var out Profile
	err := c.get(ctx, "/1.0/profiles/"+url.PathEscape(name), nil, &out)
	return out, err
}

// AddDevices adds devices to a profile. One of the same name is replaced.
func (c *Client) AddDevices(ctx context.Context, profile string, devices Devices) error {
	_, err := c.send(ctx, http.MethodPatch, "/1.0/profiles/"+url.PathEscape(profile), Profile{Devices: devices})
	return err
}

// Pools returns the names of the storage pools.
func (c *Client) Pools(ctx context.Context) ([]string, error) {
	var paths []string
	if err := c.get(ctx, "/1.0/storage-pools", nil, &paths); err != nil {
		return nil, err
	}
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = path.Base(p)
	}
	return names, nil
}

// CreatePool makes a storage pool, or returns an error satisfying
// errors.AlreadyExists.
func (c *Client) CreatePool(ctx context.Context, name, driver string) error {
	_, err := c.send(ctx, http.MethodPost, "/1.0/storage-pools", map[string]string{"name": name, "driver": driver})
	return err
}
