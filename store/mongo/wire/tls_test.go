package wire_test

import (
	"context"
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

func TestTLSLiesBelowTheTranslation(t *testing.T) {
	ca, err := mongotest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	other, err := mongotest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	text, err := ca.Issue("client")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(text, text)
	if err != nil {
		t.Fatal(err)
	}
	trusting := &tls.Config{RootCAs: ca.Pool()}
	withCert := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{cert}}
	for _, c := range []struct {
		name   string
		mutual bool
		client *tls.Config
		fails  string // part of the error; "" means success
	}{
		{"the server's certificate is ours", false, trusting, ""},
		{"the server's certificate is foreign", false, &tls.Config{RootCAs: other.Pool()}, "unknown authority"},
		{"the client speaks plain TCP", false, nil, "does it require TLS?"},
		{"both show certificates", true, withCert, ""},
		{"the client shows none", true, trusting, "certificate required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := ca.ServerConfig(c.mutual)
			if err != nil {
				t.Fatal(err)
			}
			s := newServer(t, config, helloDoc(21), always(okDoc()))
			d := &wire.Dialer{TLS: c.client, Timeout: time.Minute}
			if c.fails != "" {
				_, err := d.Conn(context.Background(), s.addr)
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error = %v, want one with %q", err, c.fails)
				}
				return
			}
			run(t, dial(t, d, s.addr), 1, 0, bson.Build().Int32("ping", 1).End())
		})
	}
}
