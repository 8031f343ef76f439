// Package agentfile reads and writes the file with which an agent or a worker
// logs in: who it is, its password and nonce, and where the controllers are.
package agentfile

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/params"
)

// File is the content of an agent file. Its String leaves the secrets out.
type File struct {
	Tag          string   `yaml:"tag"`           // machine-0, say
	Password     string   `yaml:"password"`      // secret
	Nonce        string   `yaml:"nonce"`         // what was recorded when the machine was provisioned
	ModelUUID    string   `yaml:"model-uuid"`    // of the model in which the agent logs in
	APIAddresses []string `yaml:"api-addresses"` // host:port, in the order in which they are tried
	CACert       string   `yaml:"ca-cert"`       // PEM; the only authority that is trusted

	// OwnPassword says that the agent chose its password itself, so that nobody
	// else knows it.
	OwnPassword bool `yaml:"own-password,omitempty"`
	// NextPassword is what an agent is about to change its password to: while it
	// is there, either may be the one that the controller has. Secret.
	NextPassword string `yaml:"next-password,omitempty"`
}

// String names the agent, and none of its secrets.
func (f File) String() string {
	return fmt.Sprintf("agent file of %s in model %s [password redacted]", f.Tag, f.ModelUUID)
}

// GoString is String, so that %#v shows no secret either.
func (f File) GoString() string { return f.String() }

// Info returns how to connect and log in as the agent.
func (f File) Info() api.Info {
	return api.Info{Addrs: f.APIAddresses, CACert: f.CACert, ModelUUID: f.ModelUUID,
		Tag: f.Tag, Password: params.Secret(f.Password), Nonce: f.Nonce}
}

// Validate returns an error satisfying errors.NotValid that names the first
// key that is missing or wrong.
func (f File) Validate() error {
	for _, v := range []struct{ key, value string }{
		{"tag", f.Tag}, {"password", f.Password}, {"model-uuid", f.ModelUUID}, {"ca-cert", f.CACert},
	} {
		if v.value == "" {
			return errors.NewNotValid(nil, fmt.Sprintf("key %q is missing", v.key))
		}
	}
	if len(f.APIAddresses) == 0 {
		return errors.NewNotValid(nil, `key "api-addresses" is missing`)
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(f.CACert)) {
		return errors.NewNotValid(nil, `key "ca-cert" holds no PEM certificate`)
	}
	return nil
}

// Read reads an agent file. It returns an error satisfying errors.NotFound if
// there is none, and one satisfying errors.NotValid if it cannot be used.
func Read(path string) (File, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, errors.NewNotFound(nil, fmt.Sprintf("agent file %s is not there: make one with \"slipway add-worker NAME --out FILE\", or take the one that the controller laid down", path))
	}
	if err != nil {
		return File{}, errors.Annotate(err, "cannot read agent file")
	}
	var f File
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&f); err != nil {
		return File{}, errors.NewNotValid(nil, fmt.Sprintf("agent file %s is not YAML with the keys tag, password, nonce, model-uuid, api-addresses and ca-cert", path))
	}
	if err := f.Validate(); err != nil {
		return File{}, errors.Annotatef(err, "cannot use agent file %s", path)
	}
	return f, nil
}

// Write writes an agent file with mode 0600: whole, or not at all. When it
// returns nil, the file outlives a loss of power.
func Write(path string, f File) error {
	text, err := yaml.Marshal(f)
	if err != nil {
		return errors.Annotate(err, "cannot write agent file")
	}
	return errors.Annotate(atomicfile.Write(path, text, 0o600), "cannot write agent file")
}
