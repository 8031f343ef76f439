package state

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/store"
)

// ErrExhausted says that a subnet has no address left to give.
const ErrExhausted = errors.ConstError("allocatable IP addresses exhausted")

// Allocated is an address that was given to a container.
type Allocated struct {
	Address string `json:"address"`
	MAC     string `json:"mac"`
	CIDR    string `json:"cidr"` // of its subnet

	// Interface is the interface of the host that leads there.
	Interface network.Interface `json:"interface"`
}

// AddressState is what is known of an address of a subnet.
type AddressState struct {
	Holder string     `json:"holder"` // id of a container
	MAC    string     `json:"mac"`
	Life   life.Value `json:"life"` // dead until the releaser has been
}

// addressesDoc holds those addresses of a subnet that are not free: one document
// for each subnet, so that no address is given twice.
type addressesDoc struct {
	Taken map[string]AddressState `json:"taken,omitempty"` // by address
}

// Addresses returns the addresses of a subnet that are not free.
func (ns *Networks) Addresses(ctx context.Context, cidr string) (map[string]AddressState, error) {
	d, err := readSite[addressesDoc](ctx, ns.st.c, ns.st.key(addressC, cidr))
	if err != nil {
		return nil, errors.Annotatef(err, "cannot list addresses of subnet %q", cidr)
	}
	return d.Taken, nil
}

// Allocated returns the addresses that were given to the container.
func (m *Machine) Allocated() []Allocated { return slices.Clone(m.doc.Allocated) }

// Chance draws what an allocation needs.
type Chance struct {
	MAC    func() string         // one that may be taken already
	Number func(n uint64) uint64 // from 0 to n-1
}

// macTries is how many MAC addresses are drawn before an allocation fails.
const macTries = 10

// Allocate gives the container a free address of a subnet, which has a range for that,
// and a MAC address that no other container of the site has. A container that has an
// address of the subnet keeps it. It returns an error satisfying ErrExhausted if
// none is free, and ErrNotAlive if the container is not alive.
func (m *Machine) Allocate(ctx context.Context, s network.Subnet, via network.Interface, chance Chance) (Allocated, error) {
	var given Allocated
	err := m.run(ctx, func(int) ([]store.Op, error) {
		mac := chance.MAC()
		docs, err := m.st.c.store.GetAll(ctx, []store.Key{
			m.st.key(addressC, s.CIDR), m.st.key(machinesC, m.id), siteKey(claimsC, macClaim(mac))})
		if err != nil {
			return nil, err
		}
		for try := 0; docs[2].Rev != 0; try++ {
			if try == macTries {
				return nil, errors.New("no MAC address is free")
			}
			mac = chance.MAC()
			if docs[2], err = m.claim(ctx, mac); err != nil {
				return nil, err
			}
		}
		var ops []store.Op
		ops, given, err = m.allocateOps(docs, s, Allocated{MAC: mac, CIDR: s.CIDR, Interface: via}, chance)
		return ops, err
	})
	return given, errors.Annotatef(err, "failed to allocate an address for %q", m.id)
}

// claim reads what may hold a MAC address.
func (m *Machine) claim(ctx context.Context, mac string) (store.Doc, error) {
	docs, err := m.st.c.store.GetAll(ctx, []store.Key{siteKey(claimsC, macClaim(mac))})
	if err != nil {
		return store.Doc{}, err
	}
	return docs[0], nil
}

func macClaim(mac string) string { return "container-mac:" + mac }

// allocateOps returns the batch of an allocation, from the documents of the
// subnet's addresses, the container, and the MAC address, which is free.
func (m *Machine) allocateOps(docs []store.Doc, s network.Subnet, a Allocated, chance Chance) ([]store.Op, Allocated, error) {
	if docs[1].Rev == 0 {
		return nil, a, ErrNotAlive
	}
	fresh, err := m.st.decodeMachine(docs[1])
	if err != nil {
		return nil, a, err
	}
	d := *fresh.doc
	if d.Life != life.Alive {
		return nil, a, ErrNotAlive
	}
	for _, has := range d.Allocated {
		if has.CIDR == s.CIDR {
			return nil, has, nil
		}
	}
	taken := new(addressesDoc)
	if docs[0].Rev != 0 {
		if taken, err = decode[addressesDoc](docs[0]); err != nil {
			return nil, a, err
		}
	}
	if a.Address, err = taken.free(s, chance); err != nil {
		return nil, a, err
	}
	if taken.Taken == nil {
		taken.Taken = make(map[string]AddressState)
	}
	taken.Taken[a.Address] = AddressState{Holder: m.id, MAC: a.MAC, Life: life.Alive}
	d.Allocated = append(slices.Clip(d.Allocated), a)
	address := network.NewAddress(a.Address)
	address.SpaceName = s.Space
	d.setAddresses(append(slices.Clip(d.ProviderAddresses), address), d.MachineAddresses)
	var ops []store.Op
	for _, write := range []func() (store.Op, error){
		func() (store.Op, error) { return writeOp(docs[0].Key, docs[0].Rev, taken, nil) },
		func() (store.Op, error) { return m.st.machineOp(m.id, docs[1].Rev, &d) },
		func() (store.Op, error) {
			return insertOp(siteKey(claimsC, macClaim(a.MAC)), claimDoc{Holder: m.id}, nil)
		},
	} {
		op, err := write()
		if err != nil {
			return nil, a, err
		}
		ops = append(ops, op)
	}
	return ops, a, nil
}

// free returns an address of a subnet's range that nobody has: the first one at or
// after a place that is drawn.
func (d *addressesDoc) free(s network.Subnet, chance Chance) (string, error) {
	low, err := netip.ParseAddr(s.Low)
	if err != nil {
		return "", errors.NotSupportedf("allocating addresses of subnet %q", s.CIDR)
	}
	high, err := netip.ParseAddr(s.High)
	if err != nil || !low.Is4() || !high.Is4() || high.Less(low) {
		return "", errors.NotSupportedf("allocating addresses of subnet %q", s.CIDR)
	}
	first, last := number4(low), number4(high)
	size := last - first + 1
	start := chance.Number(size)
	for i := range size {
		candidate := address4(first + (start+i)%size)
		if _, has := d.Taken[candidate]; !has {
			return candidate, nil
		}
	}
	return "", errors.WithType(errors.Errorf("%v for subnet %q", ErrExhausted, s.CIDR), ErrExhausted)
}

// number4 and address4 turn addresses of version 4 into numbers and back.
func number4(a netip.Addr) uint64 {
	b := a.As4()
	return uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])
}

func address4(n uint64) string {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

// ReleaseAddresses marks the addresses that were given to the container as dead,
// and takes them from it. The releaser, one of the Cleanups, makes them free. A
// container without addresses, and one that is gone, is a success.
func (m *Machine) ReleaseAddresses(ctx context.Context) error {
	err := m.run(ctx, func(int) ([]store.Op, error) {
		fresh, err := m.st.machine(ctx, m.id)
		if errors.Is(err, errors.NotFound) {
			return nil, nil
		}
		if err != nil || len(fresh.doc.Allocated) == 0 {
			return nil, err
		}
		return fresh.releaseOps(ctx)
	})
	return errors.Annotatef(err, "failed to mark all addresses for removal for %q", m.id)
}

func (m *Machine) releaseOps(ctx context.Context) ([]store.Op, error) {
	byCIDR := make(map[string][]Allocated)
	lost := make(map[string]bool)
	for _, a := range m.doc.Allocated {
		byCIDR[a.CIDR] = append(byCIDR[a.CIDR], a)
		lost[a.Address] = true
	}
	var keys []store.Key
	for _, cidr := range slices.Sorted(maps.Keys(byCIDR)) {
		keys = append(keys, m.st.key(addressC, cidr))
	}
	docs, err := m.st.c.store.GetAll(ctx, append(keys, m.releaseKey()))
	if err != nil {
		return nil, err
	}
	d := *m.doc
	d.Allocated = nil
	kept := slices.DeleteFunc(slices.Clone(d.ProviderAddresses), func(a network.Address) bool { return lost[a.Value] })
	d.setAddresses(kept, d.MachineAddresses)
	op, err := m.st.machineOp(m.id, m.rev, &d)
	if err != nil {
		return nil, err
	}
	ops := []store.Op{op}
	for _, doc := range docs[:len(keys)] {
		taken, err := decodeOr[addressesDoc](doc)
		if err != nil {
			return nil, err
		}
		for address, s := range taken.Taken {
			if s.Holder == m.id && lost[address] {
				s.Life = life.Dead
				taken.Taken[address] = s
			}
		}
		op, err := writeOp(doc.Key, doc.Rev, taken, nil)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	if op, err = writeOp(m.releaseKey(), docs[len(keys)].Rev, cleanupDoc{Asked: m.st.c.now()}, nil); err != nil {
		return nil, err
	}
	return append(ops, op), nil
}

// releaseKey returns the key of the releaser's work for the container.
func (m *Machine) releaseKey() store.Key { return m.st.key(cleanupsC, release+":"+m.id) }

// decodeOr is decode, and a zero T for a missing document.
func decodeOr[T any](d store.Doc) (*T, error) {
	if d.Rev == 0 {
		return new(T), nil
	}
	return decode[T](d)
}

// release makes those addresses of a model free that are dead, or whose
// container has been removed.
func (cs *Cleanups) release(ctx context.Context, job cleanup) error {
	_, id, _ := strings.Cut(job.local, ":")
	_, err := cs.state(job).machine(ctx, id)
	if err != nil && !errors.Is(err, errors.NotFound) {
		return errors.Trace(err)
	}
	removed := err != nil
	err = cs.c.releaseAll(ctx, job.model, func(s AddressState) bool {
		return s.Holder == id && (removed || s.Life == life.Dead)
	})
	if err != nil {
		return errors.Annotatef(err, "cannot release addresses of machine %s", id)
	}
	return cs.done(ctx, job)
}

// releaseAll makes some of a model's addresses free.
func (c *Controller) releaseAll(ctx context.Context, modelUUID string, which func(AddressState) bool) error {
	var keys []store.Key
	q := store.Query{Collection: addressC, Prefix: modelUUID + ":"}
	err := eachDoc(ctx, c.store, q, func(d store.Doc) error {
		keys = append(keys, d.Key)
		return nil
	})
	if err != nil {
		return errors.Annotate(err, "cannot list addresses")
	}
	for _, key := range keys {
		err := c.run(ctx, func(int) ([]store.Op, error) { return c.releaseOps(ctx, key, which) })
		if err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// releaseOps makes addresses of one subnet free, and their MAC addresses.
func (c *Controller) releaseOps(ctx context.Context, key store.Key, which func(AddressState) bool) ([]store.Op, error) {
	docs, err := c.store.GetAll(ctx, []store.Key{key})
	if err != nil || docs[0].Rev == 0 {
		return nil, err
	}
	taken, err := decode[addressesDoc](docs[0])
	if err != nil {
		return nil, err
	}
	var macs []store.Key
	for address, s := range taken.Taken {
		if which(s) {
			delete(taken.Taken, address)
			macs = append(macs, siteKey(claimsC, macClaim(s.MAC)))
		}
	}
	if len(macs) == 0 {
		return nil, nil
	}
	op, err := writeOp(key, docs[0].Rev, taken, nil)
	if err != nil {
		return nil, err
	}
	claims, err := c.store.GetAll(ctx, macs)
	if err != nil {
		return nil, errors.Trace(err)
	}
	ops := []store.Op{op}
	for _, d := range claims {
		if d.Rev != 0 {
			ops = append(ops, store.Remove(d.Key, d.Rev))
		}
	}
	return ops, nil
}
