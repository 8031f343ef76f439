package fakebmc

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/juju/errors"
)

// Rack is many BMCs behind one listener. A request is for the BMC whose number is
// in the address it was sent to: 127.16.0.0 plus the number. All of 127.0.0.0/8 is
// the loopback interface on Linux, so that one process can be a whole data centre.
// A request to any other address is for the first BMC.
type Rack []*BMC

// NewRack returns n BMCs like c, whose vendors follow one another through vendors
// if any are given.
func NewRack(n int, c Config, vendors ...string) (Rack, error) {
	var r Rack
	per := max(c.Systems, 1)
	for i := range n {
		one := c
		one.FirstSystem = c.FirstSystem + i*per
		if c.Machine != nil {
			one.Machine = func(k int) Machine { return c.Machine(i*per + k) }
		}
		if len(vendors) > 0 {
			one.Vendor = vendors[i%len(vendors)]
		}
		b, err := New(one)
		if err != nil {
			_ = r.Close()
			return nil, errors.Trace(err)
		}
		r = append(r, b)
	}
	return r, nil
}

// AddressOf returns the IP address of BMC n of a rack.
func AddressOf(n int) string {
	return netip.AddrFrom4([4]byte{127, 16 + byte(n>>16), byte(n >> 8), byte(n)}).String()
}

// Close closes all BMCs and returns the first error.
func (r Rack) Close() error {
	var first error
	for _, b := range r {
		if err := b.Close(); err != nil && first == nil {
			first = err
		}
	}
	return errors.Trace(first)
}

// ServeHTTP hands the request to the BMC it is for.
func (r Rack) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n := numberOf(req.Context())
	if n >= len(r) {
		notFound(w)
		return
	}
	r[n].ServeHTTP(w, req)
}

// numberOf returns the number in the address that a request was sent to.
func numberOf(ctx context.Context) int {
	local, ok := ctx.Value(http.LocalAddrContextKey).(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return 0
	}
	ip := local.AddrPort().Addr().Unmap()
	if !ip.Is4() {
		return 0
	}
	b := ip.As4()
	if b[0] != 127 || b[1] < 16 {
		return 0
	}
	return int(b[1]-16)<<16 | int(b[2])<<8 | int(b[3])
}
