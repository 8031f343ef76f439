package image

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"

	"github.com/juju/errors"
	"golang.org/x/crypto/blake2b"

	"github.com/slipway-project/slipway/provision/config"
)

// verifier hashes an image in whichever ways its order asks for. The functions that
// take the file's bytes and the content's bytes may run at the same time as each other.
type verifier struct {
	algorithm string    // of file
	file      hash.Hash // always there: it is reported
	content   hash.Hash // nil unless the checksum is of the content
	want      []byte    // nil for none
	of        config.ChecksumOf
	digest    string // that an OCI manifest gives the file, "" for none

	signed hash.Hash // nil unless there is a signature
	key    minisignKey
	sig    minisignSignature
}

func newVerifier(image config.Image) (*verifier, error) {
	v := &verifier{algorithm: "sha256", of: image.Of, file: sha256.New()}
	if image.Checksum == "" {
		return v, nil
	}
	algorithm, sum, err := image.ParseChecksum()
	if err != nil {
		return nil, err
	}
	v.want = sum
	newHash := sha256.New
	if algorithm == "sha512" {
		newHash = sha512.New
	}
	if v.of == config.OfContent {
		v.content = newHash()
		return v, nil
	}
	v.algorithm, v.file = algorithm, newHash()
	return v, nil
}

// fileHashes returns what takes the file's bytes as downloaded, each all of them.
func (v *verifier) fileHashes() []func([]byte) { return hashers(v.file, v.signed) }

// contentHashes returns what takes the content's bytes; often there is nothing.
func (v *verifier) contentHashes() []func([]byte) { return hashers(v.content) }

// hashers returns the functions that write to those of hashes that are not nil.
func hashers(hashes ...hash.Hash) []func([]byte) {
	var all []func([]byte)
	for _, h := range hashes {
		if h != nil {
			all = append(all, func(p []byte) { h.Write(p) })
		}
	}
	return all
}

// fileSum returns the sum of the file as it is reported.
func (v *verifier) fileSum() string { return v.algorithm + ":" + hex.EncodeToString(v.file.Sum(nil)) }

// checkFile is called when all of the file's bytes were taken.
func (v *verifier) checkFile() error {
	got := v.file.Sum(nil)
	if v.want != nil && v.content == nil && !bytes.Equal(got, v.want) {
		return errors.Annotatef(ErrMismatch, "%s of the file is %x, want %x", v.algorithm, got, v.want)
	}
	if v.digest != "" && v.algorithm == "sha256" && v.digest != v.fileSum() {
		return errors.Annotatef(ErrMismatch, "digest of the artifact is %s, want %s", v.fileSum(), v.digest)
	}
	if v.signed != nil {
		return v.checkSignature()
	}
	return nil
}

// checkContent is called when all of the content's bytes were taken.
func (v *verifier) checkContent() error {
	if v.content == nil {
		return nil
	}
	if got := v.content.Sum(nil); !bytes.Equal(got, v.want) {
		return errors.Annotatef(ErrMismatch, "checksum of the content is %x, want %x", got, v.want)
	}
	return nil
}

// minisignKey is a public key: two bytes of algorithm, eight of id, the key.
type minisignKey struct {
	id  [8]byte
	key ed25519.PublicKey
}

// minisignSignature is a signature file.
type minisignSignature struct {
	id      [8]byte
	sig     []byte // of the file's BLAKE2b-512
	comment string // trusted, once global is verified
	global  []byte // of sig and comment
}

// parseKey reads the base64 line of a public key, with or without the comment
// line above it.
func parseKey(text string) (minisignKey, error) {
	var k minisignKey
	lines := strings.Fields(text)
	if len(lines) == 0 {
		return k, errors.NotValidf("empty public key of the image")
	}
	b, err := base64.StdEncoding.DecodeString(lines[len(lines)-1])
	if err != nil || len(b) != 42 || string(b[:2]) != "Ed" {
		return k, errors.NotValidf("public key of the image (want the base64 line of a minisign key)")
	}
	copy(k.id[:], b[2:10])
	k.key = ed25519.PublicKey(b[10:])
	return k, nil
}

// parseSignature reads the four lines of a signature file.
func parseSignature(text []byte) (minisignSignature, error) {
	var s minisignSignature
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(string(text)), "\r\n", "\n"), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "untrusted comment:") {
		return s, errors.NotValidf("signature of the image (want a minisign file of four lines)")
	}
	comment, ok := strings.CutPrefix(lines[2], "trusted comment: ")
	sig, err := base64.StdEncoding.DecodeString(lines[1])
	global, err2 := base64.StdEncoding.DecodeString(lines[3])
	if !ok || err != nil || err2 != nil || len(sig) != 74 || len(global) != ed25519.SignatureSize {
		return s, errors.NotValidf("signature of the image")
	}
	switch string(sig[:2]) {
	case "ED": // pre-hashed
	case "Ed":
		return s, errors.NotSupportedf("signature of an image that was not hashed first (sign with minisign -H)")
	default:
		return s, errors.NotValidf("signature algorithm %q of the image", sig[:2])
	}
	copy(s.id[:], sig[2:10])
	s.sig, s.comment, s.global = sig[10:], comment, global
	return s, nil
}

// setSignature makes the file's signature count.
func (v *verifier) setSignature(key string, text []byte) error {
	var err error
	if v.key, err = parseKey(key); err != nil {
		return err
	}
	if v.sig, err = parseSignature(text); err != nil {
		return err
	}
	if v.key.id != v.sig.id {
		return errors.Annotatef(ErrMismatch, "image is signed by key %X, want %X", v.sig.id, v.key.id)
	}
	if !ed25519.Verify(v.key.key, append(bytes.Clone(v.sig.sig), v.sig.comment...), v.sig.global) {
		return errors.Annotate(ErrMismatch, "comment of the image's signature is forged")
	}
	v.signed, err = blake2b.New512(nil)
	return errors.Trace(err)
}

func (v *verifier) checkSignature() error {
	if !ed25519.Verify(v.key.key, v.signed.Sum(nil), v.sig.sig) {
		return errors.Annotate(ErrMismatch, "signature of the image is wrong")
	}
	logger.Infof("image signature: %s", v.sig.comment)
	return nil
}
