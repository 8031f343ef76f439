package api

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
)

// serverName is what every controller's certificate is made out to, whatever
// its addresses.
const serverName = "juju-apiserver"

// Info says where the API servers are and who is logging in.
type Info struct {
	Addrs     []string      // host:port each, in the order in which they are tried
	CACert    string        // PEM; the only authority that is trusted
	ModelUUID string        // empty for a connection to the controller itself
	Tag       string        // user-admin, machine-0 and so on
	Password  params.Secret //
	Nonce     string        // of a machine; empty for a user
	Purpose   string        // free text for the server's audit log; may be empty

	// What spares the server the hashing of the password, and whether it is wanted
	// of the next login. Only a Reconnector has use for it.
	ticket     params.Secret
	wantTicket bool
}

// Validate returns an error satisfying errors.NotValid that names the first
// thing that is missing or wrong.
func (i Info) Validate() error {
	if len(i.Addrs) == 0 {
		return errors.NewNotValid(nil, "no API address is known")
	}
	for _, addr := range i.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return errors.NewNotValid(nil, fmt.Sprintf("API address %q is not host:port", addr))
		}
	}
	if i.Tag == "" {
		return errors.NewNotValid(nil, "login without a name")
	}
	if strings.ContainsAny(i.ModelUUID, "/?#") {
		return errors.NewNotValid(nil, fmt.Sprintf("model UUID %q is not a UUID", i.ModelUUID))
	}
	if _, err := i.tlsConfig(); err != nil {
		return err
	}
	return nil
}

// tlsConfig returns a configuration that trusts the CA alone.
func (i Info) tlsConfig() (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(i.CACert)) {
		return nil, errors.NewNotValid(nil, "the controller's CA holds no PEM certificate")
	}
	return &tls.Config{RootCAs: pool, ServerName: serverName, MinVersion: tls.VersionTLS12}, nil
}

// url returns the URL of the API at one address.
func (i Info) url(addr string) string {
	if i.ModelUUID == "" {
		return "wss://" + addr + "/api"
	}
	return "wss://" + addr + "/model/" + i.ModelUUID + "/api"
}

// MachineTag returns the tag of the machine with an id, such as
// machine-0-lxd-1 for 0/lxd/1. It does not judge the id: the server does.
func MachineTag(id string) string { return "machine-" + strings.ReplaceAll(id, "/", "-") }

// ModelTag returns the tag of the model with a UUID.
func ModelTag(uuid string) string { return "model-" + uuid }

// MachineID returns the id in a machine's tag, or false if it is another kind
// of tag.
func MachineID(tag string) (string, bool) {
	id, ok := strings.CutPrefix(tag, "machine-")
	return strings.ReplaceAll(id, "-", "/"), ok && id != ""
}

// Machines names machines for a bulk call.
func Machines(ids []string) params.Entities {
	out := params.Entities{Entities: make([]params.Entity, len(ids))}
	for i, id := range ids {
		out.Entities[i].Tag = MachineTag(id)
	}
	return out
}
