package media

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/juju/errors"
)

// signer is the program that signs EFI programs, of Debian's package sbsigntool.
const signer = "sbsign"

// signTimeout bounds it: a key with a passphrase would have it wait for somebody to type.
const signTimeout = time.Minute

// sign signs the EFI program at path with a key, both PEM files, so that firmware that
// has the certificate among its keys starts it under Secure Boot. The error satisfies
// errors.NotFound where the signing program is missing.
func sign(path, key, cert string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, signer, "--key", key, "--cert", cert, "--output", path, path).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.NotFoundf("program %s to sign with (Debian's package sbsigntool)", signer)
	}
	if err != nil {
		return errors.Errorf("cannot sign the installer with key %s and certificate %s: %v: %s", key, cert, err, reason(string(out)))
	}
	return nil
}

// reason returns in one line why the signer failed: what it says after its warnings about the
// gaps that programs have.
func reason(said string) string {
	if i := strings.LastIndex(said, "gaps "); i >= 0 {
		_, said, _ = strings.Cut(said[i:], "\n")
	}
	return strings.Join(strings.Fields(said), " ")
}
