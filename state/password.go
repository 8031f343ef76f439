package state

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/juju/errors"
	"golang.org/x/crypto/argon2"
)

// The cost of hashing a person's password, after the second recommended set of RFC
// 9106 section 4 cut down to 19 MiB as OWASP's password storage sheet allows: about
// 30 ms of one core. Hashes carry their cost, so it can be raised later.
const (
	hashMemory = 19 * 1024 // KiB
	hashTime   = 2
	hashBytes  = 32
	saltBytes  = 16
)

// maxHashing is how many passwords are hashed at once, so that a flood of logins
// takes neither all memory nor every core.
const maxHashing = 2

// maxPasswordBytes bounds what is hashed of what a stranger sends.
const maxPasswordBytes = 1024

// hashPassword returns a password's hash in the PHC string format. It waits for
// its turn.
func (c *Controller) hashPassword(ctx context.Context, password string) (string, error) {
	if len(password) > maxPasswordBytes {
		return "", errors.NotValidf("password of more than %d bytes", maxPasswordBytes)
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails; see its documentation
	p := hashParams{memory: hashMemory, time: hashTime, salt: salt, size: hashBytes}
	sum, err := c.argon2(ctx, password, p)
	if err != nil {
		return "", errors.Trace(err)
	}
	enc := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s",
		argon2.Version, p.memory, p.time, enc.EncodeToString(salt), enc.EncodeToString(sum)), nil
}

// checkPassword reports whether hash is the password's. For an empty hash it
// does the work all the same, and says no.
func (c *Controller) checkPassword(ctx context.Context, hash, password string) (bool, error) {
	if len(password) > maxPasswordBytes {
		return false, nil
	}
	p := hashParams{memory: hashMemory, time: hashTime, salt: make([]byte, saltBytes), size: hashBytes}
	var want []byte
	if hash != "" {
		var err error
		if p, want, err = parseHash(hash); err != nil {
			return false, errors.Trace(err)
		}
	}
	sum, err := c.argon2(ctx, password, p)
	if err != nil {
		return false, errors.Trace(err)
	}
	return len(want) > 0 && subtle.ConstantTimeCompare(sum, want) == 1, nil
}

// hashParams are what a hash depends on beside the password.
type hashParams struct {
	memory, time uint32
	salt         []byte
	size         uint32
}

// argon2 hashes when one of the slots is free.
func (c *Controller) argon2(ctx context.Context, password string, p hashParams) ([]byte, error) {
	select {
	case c.hashing <- struct{}{}:
	case <-ctx.Done():
		return nil, errors.Trace(ctx.Err())
	}
	defer func() { <-c.hashing }()
	return argon2.IDKey([]byte(password), p.salt, p.time, p.memory, 1, p.size), nil
}

// parseHash takes a PHC string apart. Its text is our own, so an error means a
// damaged document; it does not repeat the text.
func parseHash(hash string) (hashParams, []byte, error) {
	bad := errors.NotValidf("stored password hash")
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return hashParams{}, nil, bad
	}
	var p hashParams
	var version, threads int
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return hashParams{}, nil, bad
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.time, &threads); err != nil || threads != 1 {
		return hashParams{}, nil, bad
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return hashParams{}, nil, bad
	}
	sum, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(sum) == 0 || p.time == 0 {
		return hashParams{}, nil, bad
	}
	p.salt, p.size = salt, uint32(len(sum))
	return p, sum, nil
}
