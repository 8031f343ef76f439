// Package hostkey holds the secret that all controllers of a site share, and the
// store must not have. It seals what must not be readable in the store, the
// credentials of hosts' management controllers, and it vouches for what one
// controller tells another through a client's hands.
//
// A file holds one or more keys, one a line: an id and 256 random bits. The first key
// seals; every one opens, so that a new key can be put in front while others
// are in use. A line that begins with "spare" has a key that is to seal once
// every controller knows it, one with "retired" a key that is dropped as soon as
// nothing needs it any more. Sealing is AES-256-GCM, bound to what the secret is of: text that is
// moved to another place in the store does not open. Vouching is HMAC-SHA256 with a
// key of its own for each purpose, derived by HKDF.
package hostkey

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/atomicfile"
)

// keySize is the length of a key in bytes, as AES-256 wants it.
const keySize = 32

// ErrWrongKey says that none of the keys opens a secret.
const ErrWrongKey = errors.ConstError("no key opens it")

// Ring is the keys of a file. It never prints.
type Ring struct {
	keys []key
}

type key struct {
	id     string
	secret []byte
	aead   cipher.AEAD
	use    use
}

// use says what a key is for, besides opening.
type use string

const (
	spare   use = "spare"   // it is to seal once every controller knows it
	retired use = "retired" // it is to be dropped as soon as nothing needs it
)

// New returns a ring with one new key.
func New() *Ring {
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	k, err := newKey(rand.Text()[:8], secret)
	if err != nil {
		panic("hostkey: a key of the right length is refused: " + err.Error())
	}
	return &Ring{keys: []key{k}}
}

// WithNew returns a ring with a new key in front of those of r.
func (r *Ring) WithNew() *Ring { return &Ring{keys: append(New().keys, r.keys...)} }

// WithSpare returns a ring with a new key behind those of r: it opens, and does not
// seal yet.
func (r *Ring) WithSpare() *Ring {
	k := New().keys[0]
	k.use = spare
	return &Ring{keys: append(slices.Clone(r.keys), k)}
}

// Promoted returns a ring whose spare key seals; r itself if it has none.
func (r *Ring) Promoted() *Ring {
	i := slices.IndexFunc(r.keys, func(k key) bool { return k.use == spare })
	if i < 0 {
		return r
	}
	k := r.keys[i]
	k.use = ""
	return &Ring{keys: append([]key{k}, slices.Delete(slices.Clone(r.keys), i, i+1)...)}
}

// Retiring returns a ring of which all keys but the first are retired: they open, until
// they are dropped.
func (r *Ring) Retiring() *Ring {
	out := &Ring{keys: slices.Clone(r.keys)}
	for i := range out.keys[1:] {
		out.keys[i+1].use = retired
	}
	return out
}

// Kept returns the ring without retired keys, and how many those were.
func (r *Ring) Kept() (*Ring, int) {
	out := &Ring{keys: slices.DeleteFunc(slices.Clone(r.keys), func(k key) bool { return k.use == retired })}
	return out, len(r.keys) - len(out.keys)
}

// Len returns the number of keys.
func (r *Ring) Len() int { return len(r.keys) }

// Equal reports whether two rings have the same keys, in the same order and use.
func (r *Ring) Equal(o *Ring) bool {
	return slices.EqualFunc(r.keys, o.keys, func(a, b key) bool {
		return a.id == b.id && a.use == b.use && subtle.ConstantTimeCompare(a.secret, b.secret) == 1
	})
}

func newKey(id string, secret []byte) (key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return key{}, errors.Trace(err)
	}
	aead, err := cipher.NewGCM(block)
	return key{id: id, secret: secret, aead: aead}, errors.Trace(err)
}

// Read returns the ring in a file. It returns an error satisfying errors.NotFound
// if there is no file, and errors.NotValid if it holds anything but keys.
func Read(path string) (*Ring, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, errors.NotFoundf("key file %s", path)
	}
	if err != nil {
		return nil, errors.Annotate(err, "cannot read the key file")
	}
	r := new(Ring)
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		id, encoded, _ := strings.Cut(strings.TrimSpace(line), " ")
		use := use(id)
		if use == spare || use == retired {
			id, encoded, _ = strings.Cut(encoded, " ")
		} else {
			use = ""
		}
		secret, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || id == "" || strings.Contains(id, ":") || len(secret) != keySize {
			return nil, errors.NewNotValid(nil, fmt.Sprintf("line %d of key file %s is no key: put back the file as it was", n+1, path))
		}
		k, err := newKey(id, secret)
		if err != nil {
			return nil, errors.Trace(err)
		}
		k.use = use
		r.keys = append(r.keys, k)
	}
	if r.keys[0].use != "" {
		return nil, errors.NewNotValid(nil, fmt.Sprintf("the first key of key file %s is %s: put back the file as it was", path, r.keys[0].use))
	}
	return r, nil
}

// Write writes the ring to a file that only its owner may read.
func (r *Ring) Write(path string) error {
	var b strings.Builder
	for _, k := range r.keys {
		if k.use != "" {
			b.WriteString(string(k.use) + " ")
		}
		fmt.Fprintf(&b, "%s %s\n", k.id, base64.StdEncoding.EncodeToString(k.secret))
	}
	return errors.Annotate(atomicfile.Write(path, []byte(b.String()), 0o600), "cannot write the key file")
}

// Seal returns a secret as it may be stored. What says what the secret is of.
func (r *Ring) Seal(what string, secret []byte) string {
	k := r.keys[0]
	nonce := make([]byte, k.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return k.id + ":" + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, secret, []byte(what)))
}

// Open returns what Seal was given. It returns an error satisfying ErrWrongKey if
// no key of the ring fits, or if the text was changed or is of something else.
func (r *Ring) Open(what, sealed string) ([]byte, error) {
	id, encoded, _ := strings.Cut(sealed, ":")
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.Annotatef(ErrWrongKey, "cannot open the secret of %s", what)
	}
	for _, k := range r.keys {
		if k.id != id || len(text) < k.aead.NonceSize() {
			continue
		}
		n := k.aead.NonceSize()
		if secret, err := k.aead.Open(nil, text[:n], text[n:], []byte(what)); err == nil {
			return secret, nil
		}
	}
	return nil, errors.Annotatef(ErrWrongKey, "cannot open the secret of %s", what)
}

// Vouch returns a text that Vouched knows again: only who has the ring can make it.
// It says nothing of the message to anybody else.
func (r *Ring) Vouch(purpose string, message []byte) (string, error) {
	sum, err := r.keys[0].mac(purpose, message)
	return r.keys[0].id + ":" + base64.RawURLEncoding.EncodeToString(sum), errors.Trace(err)
}

// Vouched reports whether Vouch of a ring that shares a key with this one made a
// text, for this purpose and this message.
func (r *Ring) Vouched(purpose string, message []byte, text string) (bool, error) {
	id, encoded, _ := strings.Cut(text, ":")
	got, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return false, nil // it is none of ours
	}
	for _, k := range r.keys {
		if k.id != id {
			continue
		}
		want, err := k.mac(purpose, message)
		if err != nil || hmac.Equal(got, want) {
			return err == nil, errors.Trace(err)
		}
	}
	return false, nil
}

// mac authenticates a message with a key that serves one purpose only.
func (k key) mac(purpose string, message []byte) ([]byte, error) {
	derived, err := hkdf.Key(sha256.New, k.secret, nil, "slipway vouch: "+purpose, sha256.Size)
	if err != nil {
		return nil, errors.Trace(err)
	}
	h := hmac.New(sha256.New, derived)
	_, _ = h.Write(message) // never fails
	return h.Sum(nil), nil
}

// Current reports whether a text was sealed with the key that seals now.
func (r *Ring) Current(sealed string) bool { return strings.HasPrefix(sealed, r.keys[0].id+":") }

// Format prints "[redacted]" for every verb.
func (r *Ring) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }
