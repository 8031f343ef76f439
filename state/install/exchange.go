package install

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/store"
)

// Medium returns what the boot file on a host's medium has to say, for whoever
// knows the medium's secret: everything but where we are. The error satisfies ErrUnknown for
// another secret, and ErrOver once the token is used or an hour has passed.
func (is *Installs) Medium(ctx context.Context, host string, secret config.Secret) (config.Boot, error) {
	d, _, err := is.read(ctx, host)
	if err != nil {
		return config.Boot{}, err
	}
	if d == nil || !matches(secret, d.MediumHash) {
		return config.Boot{}, errors.Trace(ErrUnknown)
	}
	if !d.Claimed.IsZero() || d.Phase != PhaseWaiting || is.docs.Now().After(d.MediumUntil) {
		return config.Boot{}, errors.Trace(ErrOver)
	}
	return config.Boot{Host: host, Number: d.Number, Token: tokenOf(secret), Network: d.Order.Network}, nil
}

// Exchange gives an installer its credential, once it has proved itself. The error
// satisfies ErrUnknown, ErrUsedTwice or ErrOver; with ErrUsedTwice the order has failed.
func (is *Installs) Exchange(ctx context.Context, e config.Exchange) (config.Secret, error) {
	if len(e.PublicKey) != ed25519.PublicKeySize || !ed25519.Verify(e.PublicKey, e.Message(), e.Signature) {
		return "", errors.Trace(ErrUnknown)
	}
	var credential config.Secret
	var refused error
	err := is.docs.Run(ctx, func(int) ([]store.Op, error) {
		credential, refused = "", nil
		d, rev, err := is.read(ctx, e.Host)
		if err != nil {
			return nil, err
		}
		if d == nil || e.Boot != d.Number || !matches(e.Token, d.TokenHash) {
			refused = ErrUnknown
			return nil, nil
		}
		s, err := is.open(d)
		if err != nil {
			return nil, err
		}
		now := is.docs.Now()
		switch {
		case d.Phase == PhaseDone || d.Phase == PhaseFailed:
			refused = ErrOver
			return nil, nil
		case d.Claimed.IsZero() && now.After(d.MediumUntil):
			refused = ErrOver
			return nil, nil
		case d.Claimed.IsZero():
			credential = config.Secret(e.Host + "." + string(newSecret()))
			s.Credential = credential
			d.Key, d.Claimed, d.Heard, d.CredentialHash = e.PublicKey, now, now, hash(credential)
			d.Phase, d.Boots[len(d.Boots)-1].Phase = PhaseRunning, PhaseRunning
		case !bytes.Equal(d.Key, e.PublicKey):
			logger.Errorf("host %s: the token of boot %d was used with a second key: its credential is revoked", d.Order.Name, d.Number)
			refused = ErrUsedTwice
			d.CredentialHash, s.Credential = "", ""
			d.end(now, PhaseFailed, string(ErrUsedTwice)+": another machine has the medium, or somebody has read it; see who can reach the network of the BMCs")
		case now.Sub(d.Claimed) > RepeatWindow:
			refused = ErrOver
			return nil, nil
		default:
			credential = s.Credential
			return nil, nil
		}
		if err := is.seal(d, s); err != nil {
			return nil, err
		}
		return is.writeOp(d, rev)
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return "", errors.Trace(err)
	}
	return credential, nil
}

// Session is an installer that has proved itself, in one boot.
type Session struct {
	is     *Installs
	host   string
	number int
	hash   string // of its credential
}

// Authenticate returns the session of a credential, or an error satisfying
// ErrUnknown.
func (is *Installs) Authenticate(ctx context.Context, credential config.Secret) (*Session, error) {
	host, _, ok := strings.Cut(string(credential), ".")
	if !ok {
		return nil, errors.Trace(ErrUnknown)
	}
	d, _, err := is.read(ctx, host)
	if err != nil {
		return nil, err
	}
	if d == nil || !matches(credential, d.CredentialHash) {
		return nil, errors.Trace(ErrUnknown)
	}
	return &Session{is, host, d.Number, d.CredentialHash}, nil
}

// Host returns the UID of the session's host.
func (s *Session) Host() string { return s.host }

// change applies a change to the order of a session that is still the present one.
func (s *Session) change(ctx context.Context, change func(d *doc) error) error {
	err := s.is.change(ctx, s.host, func(d *doc) error {
		if d.CredentialHash != s.hash || d.Number != s.number {
			return ErrOver
		}
		return change(d)
	})
	if errors.Is(err, errors.NotFound) {
		err = ErrOver
	}
	return errors.Trace(err)
}
