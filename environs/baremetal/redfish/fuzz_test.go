package redfish_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
)

// FuzzAnswers has a BMC answer every request with the same bytes.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		"", "null", "[]", `{"Members":[{"@odata.id":"/a"}],"Members@odata.nextLink":"/a"}`,
		`{"@odata.id":"/x","PowerState":"On","Systems":{"@odata.id":"/s"},"Members":[{"@odata.id":"/x"}],"Processors":{"@odata.id":"/p"},"Memory":{"@odata.id":"/p"},"Storage":{"@odata.id":"/p"},"EthernetInterfaces":{"@odata.id":"/p"},"Drives":[{"@odata.id":"/d"}]}`,
		`{"PowerState":"Off","Systems":{"@odata.id":"//evil"},"Members":[{"@odata.id":"http://evil/"}],"Actions":{"#ComputerSystem.Reset":{"target":"@evil"}}}`,
	} {
		f.Add([]byte(s))
	}
	var body atomic.Pointer[[]byte]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("X-Auth-Token", "t")
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = w.Write(*body.Load())
	}))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, answer []byte) {
		body.Store(&answer)
		b := redfish.New(redfish.Options{RequestTimeout: time.Second, CallTimeout: 2 * time.Second})
		defer b.Close(context.Background())
		h := new(metal3v1alpha1.BareMetalHost)
		h.Spec.BMC.Address = strings.Replace(server.URL, "http", "redfish+http", 1)
		p, err := b.Factory(context.Background())(h, good, func(string, string) {})
		if err != nil {
			t.Fatal(err)
		}
		check := func(r provisioner.Result, err error) {
			message := r.ErrorMessage
			if err != nil {
				message = err.Error()
			}
			if strings.ContainsAny(message, "\n\r\x00") || len(message) > 700 || strings.Contains(message, password) {
				t.Errorf("not one clear line: %q", message)
			}
		}
		check(p.ValidateManagementAccess(true))
		h.Status.Provisioning.ID = "/redfish/v1/Systems/1"
		r, _, err := p.InspectHardware()
		check(r, err)
		check(p.PowerOn())
		check(p.UpdateHardwareState())
	})
}
