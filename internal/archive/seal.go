package archive

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"io"

	"github.com/juju/errors"
	"golang.org/x/crypto/argon2"
)

// MinPassphrase is how many bytes a passphrase has at least. Whoever has an
// archive can try as many as they like.
const MinPassphrase = 12

// The cost of trying a passphrase: the second recommended set of RFC 9106,
// section 4. Archives carry theirs, so it can be raised later.
const (
	costMemory  = 64 << 10 // KiB
	costTime    = 3
	costThreads = 4
)

// Bounds of the cost that an archive may ask for, which is a stranger's word.
const (
	maxMemory  = 1 << 20 // KiB
	maxTime    = 64
	maxThreads = 64
)

const (
	keyBytes  = 32
	saltBytes = 16
	piece     = 64 << 10
)

// encryption says how a passphrase becomes the archive's key.
type encryption struct {
	Salt    []byte `json:"argon2id-salt"`
	Memory  uint32 `json:"argon2id-memory"` // KiB
	Time    uint32 `json:"argon2id-time"`
	Threads uint8  `json:"argon2id-threads"`
	Check   []byte `json:"check"` // derived from the key; tells a wrong passphrase
}

func (e *encryption) validate() error {
	if e == nil {
		return nil
	}
	if len(e.Salt) < saltBytes || len(e.Check) != keyBytes || e.Time < 1 || e.Time > maxTime ||
		e.Threads < 1 || e.Threads > maxThreads || e.Memory < 8*uint32(e.Threads) || e.Memory > maxMemory {
		return damaged("what it says about its encryption makes no sense")
	}
	return nil
}

// masterKey is the key that a passphrase gives. It prints as [redacted].
type masterKey []byte

// String hides the key.
func (masterKey) String() string { return "[redacted]" }

// GoString hides the key.
func (masterKey) GoString() string { return "[redacted]" }

// newEncryption makes a key of a passphrase.
func newEncryption(passphrase []byte) (*encryption, masterKey, error) {
	if len(passphrase) < MinPassphrase {
		return nil, nil, errors.NotValidf("passphrase of %d characters (at least %d are needed)", len(passphrase), MinPassphrase)
	}
	e := &encryption{Salt: make([]byte, saltBytes), Memory: costMemory, Time: costTime, Threads: costThreads}
	rand.Read(e.Salt) // never fails; see its documentation
	key := e.derive(passphrase)
	var err error
	e.Check, err = key.sub("check")
	return e, key, errors.Trace(err)
}

// open makes the key, and checks the passphrase by it.
func (e *encryption) open(passphrase []byte) (masterKey, error) {
	if len(passphrase) == 0 {
		return nil, errors.WithType(errors.New("it is encrypted: name its passphrase's file with --passphrase-file"), ErrPassphrase)
	}
	key := e.derive(passphrase)
	check, err := key.sub("check")
	if err != nil {
		return nil, errors.Trace(err)
	}
	if subtle.ConstantTimeCompare(check, e.Check) != 1 {
		return nil, errors.WithType(errors.New("the passphrase is not the one that it was written with"), ErrPassphrase)
	}
	return key, nil
}

func (e *encryption) derive(passphrase []byte) masterKey {
	return argon2.IDKey(passphrase, e.Salt, e.Time, e.Memory, e.Threads, keyBytes)
}

// sub returns a key for one use.
func (k masterKey) sub(use string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, k, nil, "slipway backup 1 "+use, keyBytes)
	return key, errors.Trace(err)
}

// aead returns what a file is encrypted with. No two files of an archive have
// the same name, and no two archives the same salt.
func (k masterKey) aead(name string) (cipher.AEAD, error) {
	key, err := k.sub("file " + name)
	if err != nil {
		return nil, errors.Trace(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	a, err := cipher.NewGCM(block)
	return a, errors.Trace(err)
}

// nonce is a piece's number, and whether it is the last.
func nonce(number uint64, last bool) []byte {
	n := make([]byte, 12)
	binary.BigEndian.PutUint64(n[3:], number)
	if last {
		n[11] = 1
	}
	return n
}

// sealer encrypts what is written to it. Close writes the last piece.
type sealer struct {
	to     io.Writer
	aead   cipher.AEAD
	buf    []byte
	number uint64
}

// Write implements io.Writer.
func (s *sealer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(s.buf) == piece { // it is not the last: there is more
			if err := s.flush(false); err != nil {
				return 0, err
			}
		}
		take := min(piece-len(s.buf), len(p))
		s.buf, p = append(s.buf, p[:take]...), p[take:]
	}
	return n, nil
}

// Close ends the stream. It does not close what is below.
func (s *sealer) Close() error { return s.flush(true) }

func (s *sealer) flush(last bool) error {
	_, err := s.to.Write(s.aead.Seal(nil, nonce(s.number, last), s.buf, nil))
	s.buf, s.number = s.buf[:0], s.number+1
	return errors.Trace(err)
}

// opener decrypts what a sealer wrote.
type opener struct {
	from   *bufio.Reader
	aead   cipher.AEAD
	plain  []byte // not read yet
	number uint64
	done   bool
}

// Read implements io.Reader.
func (o *opener) Read(p []byte) (int, error) {
	for len(o.plain) == 0 {
		if o.done {
			return 0, io.EOF
		}
		if err := o.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, o.plain)
	o.plain = o.plain[n:]
	return n, nil
}

// next decrypts one piece.
func (o *opener) next() error {
	buf := make([]byte, piece+o.aead.Overhead())
	n, err := io.ReadFull(o.from, buf)
	switch err {
	case nil:
		_, err := o.from.Peek(1)
		o.done = err != nil
	case io.ErrUnexpectedEOF:
		o.done = true
	default:
		return damaged("an encrypted file is cut off")
	}
	o.plain, err = o.aead.Open(nil, nonce(o.number, o.done), buf[:n], nil)
	if err != nil {
		return damaged("an encrypted file was changed")
	}
	o.number++
	return nil
}
