package site_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/params"
)

// addHosts adds simulated hosts that nobody cares for.
func addHosts(t *testing.T, dir site.Dir, address, prefix string, n int) {
	t.Helper()
	c := operator(t, dir, address)
	var add []params.AddHost
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		add = append(add, params.AddHost{
			Name: name, Spec: json.RawMessage(`{"bmc":{"address":"simulated://` + name + `"}}`),
			Credentials: params.HostCredentials{Username: "root", Password: "calvin"},
		})
	}
	added, err := c.Add(t.Context(), add...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range added {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// ringIs waits until the file of keys is as wanted, and returns it.
func ringIs(t *testing.T, dir site.Dir, what string, ok func(*hostkey.Ring) bool) *hostkey.Ring {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := hostkey.Read(dir.HostKeys())
		if err != nil {
			t.Fatal(err)
		}
		if ok(r) {
			return r
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the keys are not %s", what)
		}
	}
}

func rotate(t *testing.T, dir site.Dir, step site.KeyStep) {
	t.Helper()
	if err := dir.RotateHostKey(step); err != nil {
		t.Fatal(err)
	}
}

func alone(r *hostkey.Ring) bool { return r.Len() == 1 }

// The key of hosts' secrets is replaced while the site is served.
func TestTheKeyOfHostsIsReplaced(t *testing.T) {
	dir := bootstrap(t)
	before, err := hostkey.Read(dir.HostKeys())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir)
	addHosts(t, dir, s.Addr(), "a", 120)
	rotate(t, dir, site.KeyFinish)
	after := ringIs(t, dir, "one", alone)
	if after.Equal(before) {
		t.Fatal("the old key is still there")
	}
	addHosts(t, dir, s.Addr(), "b", 3) // sealed with the new one, which the site has taken up
	end(t, s)
	end(t, serve(t, dir)) // which is refused unless everything can be read
	if err := before.Write(dir.HostKeys()); err != nil {
		t.Fatal(err)
	}
	if _, err := site.Open(t.Context(), site.Options{Dir: dir, Registry: all.Registry(all.Backends{})}); !errors.Is(err, hostkey.ErrWrongKey) {
		t.Errorf("with the old key: %v, want ErrWrongKey", err)
	}
}

// The replacement goes on at the next start, at whatever step it was broken off, and at
// each step both keys are known to whoever follows the steps on every controller.
func TestAReplacementThatIsBrokenOff(t *testing.T) {
	dir := bootstrap(t)
	s := serve(t, dir)
	addHosts(t, dir, s.Addr(), "a", 3)
	end(t, s)
	for _, step := range []site.KeyStep{site.KeyAdd, site.KeySeal, site.KeySeal} {
		rotate(t, dir, step)
		s = serve(t, dir)
		addHosts(t, dir, s.Addr(), string(step)+fmt.Sprint(time.Now().UnixNano()), 2)
		end(t, s)
	}
	if err := dir.RotateHostKey(site.KeyAdd); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("a third key: %v, want AlreadyExists", err)
	}
	rotate(t, dir, site.KeyFinish)
	if err := dir.RotateHostKey(site.KeyFinish); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("a replacement during another: %v, want AlreadyExists", err)
	}
	s = serve(t, dir)
	ringIs(t, dir, "one", alone)
	end(t, s)
	end(t, serve(t, dir))
}

// A file with other keys than the site's is not taken up.
func TestKeysThatAreNotTheSitesAreNotTakenUp(t *testing.T) {
	dir := bootstrap(t)
	own, err := hostkey.Read(dir.HostKeys())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir)
	addHosts(t, dir, s.Addr(), "a", 1)
	if err := hostkey.New().Write(dir.HostKeys()); err != nil {
		t.Fatal(err)
	}
	addHosts(t, dir, s.Addr(), "b", 1)
	if err := own.Write(dir.HostKeys()); err != nil {
		t.Fatal(err)
	}
	end(t, s)
	end(t, serve(t, dir))
	if err := site.Dir(t.TempDir()).RotateHostKey(site.KeyAdd); !errors.Is(err, errors.NotFound) {
		t.Errorf("without a site: %v, want NotFound", err)
	}
	if err := dir.RotateHostKey("dance"); !errors.Is(err, errors.NotValid) {
		t.Errorf("an unknown step: %v, want NotValid", err)
	}
}

// Of several who begin at once one makes a key, and no key is lost that a controller may
// have sealed with already.
func TestTwoReplacementsAtOnce(t *testing.T) {
	for _, step := range []site.KeyStep{site.KeyAdd, site.KeyFinish} {
		dir := bootstrap(t)
		results := make(chan error)
		const callers = 8
		for range callers {
			go func() { results <- dir.RotateHostKey(step) }()
		}
		made := 0
		for range callers {
			switch err := <-results; {
			case err == nil:
				made++
			case !errors.Is(err, errors.AlreadyExists) && !errors.Is(err, site.ErrInUse):
				t.Errorf("%s: %v", step, err)
			}
		}
		ring, err := hostkey.Read(dir.HostKeys())
		if err != nil || made != 1 || ring.Len() != 2 {
			t.Errorf("%s: %d were made, and there are %d keys, %v", step, made, ring.Len(), err)
		}
	}
}
