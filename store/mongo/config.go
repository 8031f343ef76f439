package mongo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// Config says where the replica set is and how to reach it.
type Config struct {
	// URL is mongodb://HOST[:PORT][,HOST[:PORT]...]/DATABASE[?OPTIONS]. Options
	// are replicaSet=NAME, authSource=DATABASE (default admin) and tls=true.
	// It holds no credentials.
	URL         string
	Collections []store.Collection // those that calls may name

	CredentialsFile string // its first line is USER:PASSWORD; "" means none
	CAFile          string // PEM of the authorities to trust; turns TLS on
	CertificateFile string // PEM of our certificate and key, for mutual TLS; turns TLS on

	Timeout     time.Duration // of a call whose context has no deadline; 0 means 30 seconds
	Connections int           // greatest number of operations at once; 0 means 64

	// Dial opens the connections; nil means TCP. It is for tests.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Lock serializes writes, for a server on the test bench whose updates are
	// not atomic; nil everywhere else.
	Lock sync.Locker
}

const (
	defaultTimeout     = 30 * time.Second
	defaultConnections = 64
	defaultPort        = "27017"
	metaCollection     = "slipway.meta"
)

// target is what a URL says.
type target struct {
	addrs      []string
	database   string
	set        string
	authSource string
	tls        bool
}

// Validate returns an error satisfying errors.NotValid for a malformed URL, a
// number below zero or a bad declaration.
func (c Config) Validate() error {
	if _, err := c.target(); err != nil {
		return err
	}
	if c.Timeout < 0 || c.Connections < 0 {
		return errors.NotValidf("timeout %v, connections %d: a number below zero", c.Timeout, c.Connections)
	}
	for _, coll := range c.Collections {
		if strings.ContainsAny(coll.Name, "$\x00") || strings.HasPrefix(coll.Name, "system.") || coll.Name == metaCollection {
			return errors.NotValidf("collection name %q", coll.Name)
		}
	}
	_, err := store.NewSchema(c.Collections)
	return errors.Trace(err)
}

// target takes the URL apart.
func (c Config) target() (target, error) {
	// Several hosts with ports are more than net/url takes: parse them apart.
	rest, ok := strings.CutPrefix(c.URL, "mongodb://")
	if !ok {
		return target{}, errors.NotValidf("store URL: it must start with mongodb:// and")
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if strings.Contains(hosts, "@") {
		return target{}, errors.NotValidf("store URL with credentials (put them into the credentials file)")
	}
	u, err := url.Parse("mongodb://h/" + path)
	if err != nil {
		return target{}, errors.NewNotValid(nil, "store URL cannot be parsed")
	}
	t := target{database: strings.TrimPrefix(u.Path, "/"), authSource: "admin"}
	if t.database == "" || len(t.database) > 38 || strings.ContainsAny(t.database, "/\\. \"$*<>:|?\x00") {
		return target{}, errors.NotValidf("database name %q in the store URL", t.database)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
		}
		if h, port, err := net.SplitHostPort(host); err != nil || h == "" || port == "" {
			return target{}, errors.NotValidf("host %q in the store URL", host)
		}
		t.addrs = append(t.addrs, host)
	}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "replicaSet":
			t.set = value
		case "authSource":
			t.authSource = value
		case "tls", "ssl":
			if value != "true" && value != "false" {
				return target{}, errors.NotValidf("%s=%s in the store URL (true or false)", name, value)
			}
			t.tls = value == "true"
		default:
			return target{}, errors.NotValidf("option %q in the store URL (replicaSet, authSource or tls)", name)
		}
	}
	return t, nil
}

// tlsConfig reads the certificate files; nil means plain TCP.
func (c Config) tlsConfig(t target) (*tls.Config, error) {
	if !t.tls && c.CAFile == "" && c.CertificateFile == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, errors.Annotate(err, "cannot read the authorities of the store's server")
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.NotValidf("%s: it holds no PEM certificate and", c.CAFile)
		}
	}
	if c.CertificateFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertificateFile, c.CertificateFile)
		if err != nil {
			return nil, errors.Annotate(err, "cannot read our certificate for the store's server")
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// credentials are a user's name and password. They print as [redacted].
type credentials struct{ user, password string }

// String hides the password.
func (credentials) String() string { return "[redacted]" }

// GoString hides the password.
func (credentials) GoString() string { return "[redacted]" }

// credentials reads the credentials file; both are empty without one.
func (c Config) credentials() (credentials, error) {
	if c.CredentialsFile == "" {
		return credentials{}, nil
	}
	text, err := os.ReadFile(c.CredentialsFile)
	if err != nil {
		return credentials{}, errors.Annotate(err, "cannot read the store's credentials")
	}
	line, _, _ := strings.Cut(string(text), "\n")
	user, password, ok := strings.Cut(strings.TrimRight(line, "\r"), ":")
	if !ok || user == "" || password == "" {
		return credentials{}, errors.NotValidf("%s: its first line is not USER:PASSWORD and", c.CredentialsFile)
	}
	return credentials{user, password}, nil
}
