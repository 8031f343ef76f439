package tlsfiles

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/internal/atomicfile"
)

var logger = loggo.GetLogger("slipway.tlsfiles")

// The names of the files. Those that hold a key are for their owner alone.
const (
	AuthorityFile    = "ca.pem"
	authorityKeyFile = "ca-key.pem"
	leafFile         = "server.pem"
	leafKeyFile      = "server-key.pem"
)

// Dir keeps an authority and a server certificate in a folder.
type Dir struct {
	path  string
	hosts []string
	now   func() time.Time

	mu        sync.Mutex
	authority Pair      // which signs
	bundle    []byte    // PEM: all that are to be trusted
	rotation  *Rotation // under way; nil if none is
	leaf      *tls.Certificate
	warned    time.Time // when it was last told that the leaf cannot be renewed
}

// Open returns what the folder at path holds, and makes what is missing: the
// authority if there is none, and the server certificate if there is none that
// fits hosts. It returns an error rather than replace an authority that it
// cannot read, since every client would have to be told of a new one.
func Open(path string, hosts []string) (*Dir, error) {
	d := &Dir{path: path, hosts: hosts, now: time.Now}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, errors.Annotate(err, "cannot keep certificates")
	}
	if err := d.openAuthority(); err != nil {
		return nil, errors.Trace(err)
	}
	if _, err := d.Certificate(); err != nil {
		return nil, errors.Trace(err)
	}
	return d, nil
}

// openAuthority reads the authority, or makes it if neither of its files is
// there.
func (d *Dir) openAuthority() error {
	err := d.load()
	switch {
	case err == nil:
		return nil
	case !os.IsNotExist(err):
		return errors.Annotate(err, "cannot read the certificate authority")
	}
	for _, name := range []string{AuthorityFile, authorityKeyFile} {
		if _, err := os.Stat(filepath.Join(d.path, name)); err == nil {
			return errors.Errorf("certificate authority in %s is incomplete: %s is there without its counterpart", d.path, name)
		}
	}
	if d.authority, err = NewAuthority("slipway", d.now()); err != nil {
		return errors.Trace(err)
	}
	d.bundle = d.authority.Cert
	return d.write(d.authority, AuthorityFile, authorityKeyFile)
}

// check returns an error if a pair cannot be used as an authority.
func (d *Dir) check(p Pair) error {
	_, err := tls.X509KeyPair(p.Cert, p.Key)
	return errors.Annotatef(err, "cannot use the certificate authority in %s", d.path)
}

// AuthorityPEM returns the certificates of the authorities that clients are to
// trust: one, or two while one is being replaced.
func (d *Dir) AuthorityPEM() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.bundle)
}

// Rotation returns the replacement of the authority that is under way, or false
// if none is.
func (d *Dir) Rotation() (Rotation, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rotation == nil {
		return Rotation{}, false
	}
	return *d.rotation, true
}

// Refresh takes up what has become of the authority: that it is being replaced,
// and that its time is over. It reports whether clients are to trust something
// else now.
func (d *Dir) Refresh() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := string(d.bundle)
	signer := string(d.authority.Cert)
	if err := d.load(); err != nil {
		return false, errors.Annotate(err, "cannot read the certificate authority")
	}
	if signer != string(d.authority.Cert) {
		d.leaf = nil
	}
	return before != string(d.bundle), nil
}

// Certificate returns the server certificate, which it renews when it is time. One
// that cannot be renewed is used as long as it is good. It may be called
// concurrently.
func (d *Dir) Certificate() (*tls.Certificate, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if d.leaf != nil && now.Before(RenewAt(d.leaf.Leaf)) {
		return d.leaf, nil
	}
	leaf, err := d.renew(now)
	if err != nil && d.leaf != nil && now.Before(d.leaf.Leaf.NotAfter) {
		if now.Sub(d.warned) > time.Hour {
			logger.Errorf("cannot renew the server certificate, which is good until %s: %v", d.leaf.Leaf.NotAfter.Format(time.RFC3339), err)
			d.warned = now
		}
		return d.leaf, nil
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	d.leaf = leaf
	return d.leaf, nil
}

// renew returns the server certificate that is kept, or a new one.
func (d *Dir) renew(now time.Time) (*tls.Certificate, error) {
	pair, err := d.read(leafFile, leafKeyFile)
	if err != nil || !fits(pair, d.authority, d.hosts, now) {
		if pair, err = NewLeaf(d.authority, d.hosts, now); err != nil {
			return nil, errors.Trace(err)
		}
		if err := d.write(pair, leafFile, leafKeyFile); err != nil {
			return nil, errors.Trace(err)
		}
	}
	leaf, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return &leaf, errors.Annotate(err, "cannot use the server certificate")
}

func (d *Dir) read(cert, key string) (Pair, error) {
	var p Pair
	var err error
	if p.Cert, err = os.ReadFile(filepath.Join(d.path, cert)); err != nil {
		return Pair{}, err
	}
	p.Key, err = os.ReadFile(filepath.Join(d.path, key))
	return p, err
}

// write writes both files, the key first, each under another name until it is
// whole.
func (d *Dir) write(p Pair, cert, key string) error {
	for _, f := range []struct {
		name string
		data []byte
		mode os.FileMode
	}{{key, p.Key, 0o600}, {cert, p.Cert, 0o644}} {
		path := filepath.Join(d.path, f.name)
		if err := atomicfile.Write(path, f.data, f.mode); err != nil {
			return errors.Annotatef(err, "cannot write %s", path)
		}
	}
	return nil
}
