package agentfile_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/agentfile"
)

func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestWriteThenRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	want := agentfile.File{
		Tag: "machine-0", Password: "a password of 24 bytes..", Nonce: "n", ModelUUID: "uuid",
		APIAddresses: []string{"127.0.0.1:17070"}, CACert: certificate(t),
	}
	if err := agentfile.Write(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := agentfile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Read = %v, want what was written", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o, want 600", info.Mode().Perm())
	}
	if i := got.Info(); i.Tag != want.Tag || string(i.Password) != want.Password || i.Nonce != want.Nonce || i.Validate() != nil {
		t.Errorf("Info = %v, want one with which the agent can log in", i)
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 1 {
		t.Errorf("%d files left, want the one", len(left))
	}
	for _, verb := range []string{"%v", "%s", "%+v", "%#v"} {
		if s := fmt.Sprintf(verb, want); strings.Contains(s, want.Password) {
			t.Errorf("%s shows the password: %s", verb, s)
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	ca := certificate(t)
	indent := strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n  ")
	tests := []struct {
		name, text, want string
	}{
		{"garbage", "\t{", "is not YAML"},
		{"empty", "{}", `key "tag" is missing`},
		{"no password", "tag: machine-0\n", `key "password" is missing`},
		{"no addresses", "tag: machine-0\npassword: p\nmodel-uuid: u\nca-cert: x\n", `key "api-addresses" is missing`},
		{"no certificate", "tag: machine-0\npassword: p\nmodel-uuid: u\napi-addresses: [a:1]\nca-cert: x\n", "no PEM certificate"},
		{"good", "tag: machine-0\npassword: p\nmodel-uuid: u\napi-addresses: [a:1]\nca-cert: |\n  " + indent + "\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := agentfile.Read(path)
			if test.want == "" {
				if err != nil {
					t.Errorf("Read = %v, want no error", err)
				}
				return
			}
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Read = %v, want one line NotValid with %q", err, test.want)
			}
		})
	}
	if _, err := agentfile.Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, errors.NotFound) {
		t.Errorf("Read of a missing file = %v, want NotFound", err)
	}
}
