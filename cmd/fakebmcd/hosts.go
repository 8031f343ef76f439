package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/internal/atomicfile"
)

// secretName is what the documents call the BMCs' credentials.
const secretName = "fakebmcd"

// describe writes the machines to the file that was asked for, as documents that
// "slipway import-hosts" takes: with the credentials that the BMCs accept, and with their
// certificate pinned.
func describe(s settings, rack fakebmc.Rack, listeners []net.Listener, config *tls.Config) error {
	scheme, pin := "redfish-virtualmedia+http", ""
	if config != nil {
		sum := sha256.Sum256(config.Certificates[0].Certificate[0])
		scheme, pin = "redfish-virtualmedia", hex.EncodeToString(sum[:])
	}
	docs := &metal3v1alpha1.Documents{Secrets: []metal3v1alpha1.Secret{metal3v1alpha1.NewSecret("", secretName, map[string]string{
		"username": cmp.Or(s.config.Credentials.Username, "admin"), "password": cmp.Or(s.config.Credentials.Password, "any"),
	})}}
	for n, b := range rack {
		for k := range s.config.Systems {
			system := b.System(k)
			docs.Hosts = append(docs.Hosts, &metal3v1alpha1.BareMetalHost{
				Metadata: metal3v1alpha1.ObjectMeta{Name: fmt.Sprintf("fake-%d", system.Number())},
				Spec: metal3v1alpha1.BareMetalHostSpec{
					Online: true, BootMACAddress: system.MAC(),
					BMC: metal3v1alpha1.BMCDetails{Address: scheme + "://" + listeners[n].Addr().String() + system.Path(), CredentialsName: secretName, CertificateFingerprint: pin},
				},
			})
		}
	}
	var out bytes.Buffer
	if err := metal3v1alpha1.Encode(&out, docs); err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(atomicfile.Write(s.writeHosts, out.Bytes(), 0o600), "cannot write --write-hosts")
}
