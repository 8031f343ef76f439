package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// Spec says what host to add.
type Spec struct {
	Name        string // lower-case letters, digits, hyphens and dots; empty: made of the boot MAC address
	Labels      map[string]string
	Annotations map[string]string
	Spec        metal3v1alpha1.BareMetalHostSpec
	Credentials bmc.Credentials // of the BMC; may be missing, and set later
	ReserveFor  string          // UUID of the only model whose machines may get it
}

var hostName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$`)

// normalize checks a spec and gives what can be spelled in several ways its one
// form. It returns the BMC's address.
func (s *Spec) normalize() (address bmc.Address, err error) {
	if address, err = bmc.Parse(s.Spec.BMC.Address); err != nil {
		return address, err
	}
	s.Spec.BMC.Address = address.String()
	switch mac := s.Spec.BootMACAddress; {
	case mac != "":
		hw, err := net.ParseMAC(mac)
		if err != nil || len(hw) != 6 {
			return address, errors.NewNotValid(nil, fmt.Sprintf("%q is not a MAC address: give six pairs of hexadecimal digits, such as 52:54:00:12:34:56", mac))
		}
		s.Spec.BootMACAddress = hw.String()
	case address.Driver.NeedsMAC:
		return address, errors.NewNotValid(nil, fmt.Sprintf("a host at a BMC of type %s needs the MAC address that it boots from", address.Driver.Scheme))
	}
	if pin := s.Spec.BMC.CertificateFingerprint; pin != "" {
		if _, err := bmc.ParseFingerprint(pin); err != nil {
			return address, err
		}
	}
	if bundle := s.Spec.BMC.CABundle; bundle != "" {
		if _, err := bmc.ParseAuthorities(bundle); err != nil {
			return address, err
		}
	}
	if s.Name == "" && s.Spec.BootMACAddress != "" {
		s.Name = "host-" + strings.ReplaceAll(s.Spec.BootMACAddress, ":", "")
	}
	if !hostName.MatchString(s.Name) {
		return address, errors.NewNotValid(nil, fmt.Sprintf("%q is not a host name: use lower-case letters, digits, hyphens and dots", s.Name))
	}
	if s.Credentials != (bmc.Credentials{}) {
		return address, s.Credentials.Validate()
	}
	return address, nil
}

// claim is a name that no two hosts share.
type claim struct {
	key  store.Key
	what string // for people
}

// claims returns what a host with this spec claims.
func (hs *Hosts) claims(address bmc.Address, mac string) []claim {
	claims := []claim{{hs.docs.Claim("bmc", address.Key()), "the BMC at " + address.String()}}
	if mac != "" {
		claims = append(claims, claim{hs.docs.Claim("host-mac", mac), "the MAC address " + mac})
	}
	return claims
}

// Add adds a host, and returns its name. The error satisfies errors.NotValid for
// a bad name, address, MAC or credentials, and errors.AlreadyExists if the name, the
// BMC or the MAC address is another host's.
func (hs *Hosts) Add(ctx context.Context, spec Spec) (string, error) {
	address, err := spec.normalize()
	if err != nil {
		return "", errors.Trace(err)
	}
	d := hostDoc{Spec: spec.Spec, ReserveFor: spec.ReserveFor, Metadata: metal3v1alpha1.ObjectMeta{
		Name: spec.Name, UID: uuid.NewString(), Labels: spec.Labels, Annotations: spec.Annotations, CreationTimestamp: hs.docs.Now(),
	}}
	d.Spec.ConsumerRef = nil // it is ours to say
	claims := hs.claims(address, spec.Spec.BootMACAddress)
	keys := []store.Key{hs.hostKey(spec.Name), hs.statusKey(spec.Name)}
	for _, c := range claims {
		keys = append(keys, c.key)
	}
	err = hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		d := d
		if err := hs.seal(&d, spec.Credentials); err != nil { // here, where Settle waits for it
			return nil, err
		}
		docs, err := hs.docs.Get(ctx, keys)
		if err != nil {
			return nil, err
		}
		if docs[0].Rev != 0 {
			return nil, errors.AlreadyExistsf("host %q", spec.Name)
		}
		for i, c := range claims {
			if held := docs[2+i]; held.Rev != 0 {
				var by claimDoc
				_ = json.Unmarshal(held.Data, &by) // the name is for people
				return nil, errors.NewAlreadyExists(nil, fmt.Sprintf("%s is that of host %q already", c.what, by.Holder))
			}
		}
		return hs.addOps(d, docs[1].Rev, claims)
	})
	return spec.Name, errors.Trace(err)
}

// addOps returns the operations that write a new host.
func (hs *Hosts) addOps(d hostDoc, statusRev store.Rev, claims []claim) ([]store.Op, error) {
	name := d.Metadata.Name
	host, err := writeOp(hs.hostKey(name), 0, d)
	if err != nil {
		return nil, err
	}
	status, err := writeOp(hs.statusKey(name), statusRev, statusDoc{})
	if err != nil {
		return nil, err
	}
	ops := []store.Op{host, status}
	for _, c := range claims {
		op, err := writeOp(c.key, 0, claimDoc{Holder: name})
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// All returns every host, by name.
func (hs *Hosts) All(ctx context.Context) ([]Host, error) {
	var names []string
	err := hs.docs.Each(ctx, state.HostsCollection, func(id string, _ store.Doc) error {
		names = append(names, id)
		return nil
	})
	if err != nil {
		return nil, errors.Annotate(err, "cannot list hosts")
	}
	pairs, err := hs.read(ctx, names)
	if err != nil {
		return nil, errors.Annotate(err, "cannot list hosts")
	}
	found := make([]Host, 0, len(pairs))
	for _, p := range pairs {
		if p != nil {
			found = append(found, p.public())
		}
	}
	return found, nil
}

// Get returns a host, or an error satisfying errors.NotFound.
func (hs *Hosts) Get(ctx context.Context, name string) (Host, error) {
	pairs, err := hs.read(ctx, []string{name})
	switch {
	case err != nil:
		return Host{}, errors.Annotatef(err, "cannot get host %q", name)
	case pairs[0] == nil:
		return Host{}, errors.NotFoundf("host %q", name)
	}
	return pairs[0].public(), nil
}

// read reads hosts all at once; one that is missing is nil.
func (hs *Hosts) read(ctx context.Context, names []string) ([]*pair, error) {
	keys := make([]store.Key, 0, 2*len(names))
	for _, name := range names {
		keys = append(keys, hs.hostKey(name), hs.statusKey(name))
	}
	docs, err := hs.docs.Get(ctx, keys)
	if err != nil {
		return nil, errors.Trace(err)
	}
	pairs := make([]*pair, len(names))
	for i, name := range names {
		if docs[2*i].Rev == 0 {
			continue
		}
		if pairs[i], err = decodePair(name, docs[2*i], docs[2*i+1]); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// change applies a change to what people want of a host.
func (hs *Hosts) change(ctx context.Context, name string, change func(*pair) error) error {
	return hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		pairs, err := hs.read(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		if pairs[0] == nil {
			return nil, errors.NotFoundf("host %q", name)
		}
		if err := change(pairs[0]); err != nil {
			return nil, err
		}
		op, err := writeOp(hs.hostKey(name), pairs[0].hostRev, pairs[0].host)
		return []store.Op{op}, err
	})
}

// Remove asks for the removal of a host, which the manager carries out. A host in
// use is removed by force only; by force also, nothing is waited for for long.
func (hs *Hosts) Remove(ctx context.Context, name string, force bool) error {
	return hs.change(ctx, name, func(p *pair) error {
		if c := p.host.Consumer; c != nil && !force {
			return errors.Errorf("host %q is in use by machine %s of model %s: remove the machine first, or give --force", name, c.MachineID, c.ModelUUID)
		}
		if p.host.Metadata.DeletionTimestamp == nil {
			now := hs.docs.Now()
			p.host.Metadata.DeletionTimestamp = &now
		}
		p.host.Force = p.host.Force || force
		return nil
	})
}

// SetCredentials gives a host's BMC other credentials.
func (hs *Hosts) SetCredentials(ctx context.Context, name string, c bmc.Credentials) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return hs.change(ctx, name, func(p *pair) error { return hs.seal(&p.host, c) })
}

// Action is something that people ask of a host.
type Action string

// The actions.
const (
	PowerOn         Action = "power-on"
	PowerOff        Action = "power-off"
	Reboot          Action = "reboot"
	HardReboot      Action = "hard-reboot" // without asking the operating system
	Inspect         Action = "inspect"
	MaintenanceOn   Action = "maintenance-on" // the host is left alone
	MaintenanceOff  Action = "maintenance-off"
	Retry           Action = "retry" // whatever failed, at once
	hardRebootValue        = `{"mode":"hard"}`
)

// Do asks something of a host. The error satisfies errors.NotFound for an unknown
// host and errors.NotValid for an unknown action.
func (hs *Hosts) Do(ctx context.Context, name string, a Action) error {
	return hs.change(ctx, name, func(p *pair) error {
		annotate := func(key, value string) {
			if p.host.Metadata.Annotations == nil {
				p.host.Metadata.Annotations = map[string]string{}
			}
			p.host.Metadata.Annotations[key] = value
		}
		switch a {
		case PowerOn, PowerOff:
			p.host.Spec.Online = a == PowerOn
		case Reboot:
			annotate(metal3v1alpha1.RebootAnnotation, "")
		case HardReboot:
			annotate(metal3v1alpha1.RebootAnnotation, hardRebootValue)
		case Inspect:
			annotate(metal3v1alpha1.InspectAnnotation, "")
		case MaintenanceOn:
			annotate(metal3v1alpha1.PausedAnnotation, "")
		case MaintenanceOff:
			delete(p.host.Metadata.Annotations, metal3v1alpha1.PausedAnnotation)
		case Retry:
			p.host.Retries++
		default:
			return errors.NotValidf("action %q", a)
		}
		return nil
	})
}
