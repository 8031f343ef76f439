// The table of facades is not exported, and its golden file is about all of it.
package apiserver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/internal/logfile"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

func TestFacades(t *testing.T) {
	r, err := newRegistry(facades(), effects())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	last := ""
	for _, row := range facades() {
		if row.name < last {
			t.Errorf("%s stands after %s, want the table sorted", row.name, last)
		}
		last = row.name
		f := r.byName[row.name].byNumber[row.version]
		fmt.Fprintf(&b, "%s(%d), on connections to: %v, for: %s\n", row.name, row.version, row.scope, row.who.name)
		for _, name := range slices.Sorted(maps.Keys(f.methods)) {
			m := f.methods[name]
			b.WriteString(strings.TrimRight(fmt.Sprintf("\t%s(%s) %s", name, typeName(m.Params()), typeName(m.Result())), " ") + "\n")
		}
	}
	golden.Check(t, "facades.golden", []byte(b.String()))
}

func TestRoutes(t *testing.T) {
	s := &Server{}
	s.cfg.Logs = new(logfile.Store) // so that their routes are in the table
	var b strings.Builder
	for _, r := range s.routes() {
		b.WriteString(r.pattern + "\n")
	}
	golden.Check(t, "routes.golden", b.String())
}

func typeName(t reflect.Type) string {
	if t == nil {
		return ""
	}
	return t.Name()
}

type badFacade struct{}

func (badFacade) Open(string) {}

type goodFacade struct{}

func (goodFacade) Do() error { return nil }

func TestRegistryRefusesABadTable(t *testing.T) {
	bad := row{name: "Bad", version: 1, make: of(func(*state.State, common.Connection) (*badFacade, error) { return nil, nil })}
	good := row{name: "Good", version: 1, make: of(func(*state.State, common.Connection) (*goodFacade, error) { return nil, nil })}
	if _, err := newRegistry([]row{bad}, nil); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "facade Bad(1): method Open") {
		t.Errorf("newRegistry = %v, want the bad method named", err)
	}
	if _, err := newRegistry([]row{good}, nil); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "facade Good(1): method Do, which is in no row of effects()") {
		t.Errorf("newRegistry without effects = %v, want the method named", err)
	}
	if _, err := newRegistry([]row{good, good}, []effectsRow{{"Good", writes, "Do"}}); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("newRegistry of one facade twice = %v, want already exists", err)
	}
}

// Cases: server/ControllerOnlyLogin server/DispatchErrors
func TestFindRefuses(t *testing.T) {
	r, err := newRegistry(facades(), effects())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		scope scope
		q     rpc.Request
		want  string
	}{
		{onModel, rpc.Request{Type: "Foo", Method: "Bar"}, `unknown object type "Foo"`},
		{onModel, rpc.Request{Type: "Foo", Version: 2, Method: "Bar"}, `unknown version (2) of interface "Foo"`},
		{onModel, rpc.Request{Type: "ModelManager", Version: 2, Method: "ListModels"}, `facade "ModelManager" not supported for model API connection`},
		{onController, rpc.Request{Type: "Client", Version: 1, Method: "FullStatus"}, `facade "Client" not supported for controller API connection`},
		{onController, rpc.Request{Type: "Foo", Version: 1, Method: "Bar"}, `facade "Foo" not supported for controller API connection`},
		{onController, rpc.Request{Type: "Admin", Version: 3, Method: "Login"}, `unknown version (3) of interface "Admin"`},
		{onController, rpc.Request{Type: "ModelManager", Version: 1, Method: "ListModels"}, `unknown version (1) of interface "ModelManager"`},
		{onController, rpc.Request{Type: "ModelManager", Version: 2, Method: "Foo"}, `no such request - method ModelManager(2).Foo is not implemented`},
	}
	for _, test := range tests {
		if _, _, err := r.find(test.scope, test.q); err == nil || err.Error() != test.want {
			t.Errorf("find(%v, %+v) = %v, want %s", test.scope, test.q, err, test.want)
		}
	}
	if _, _, err := r.find(onController, rpc.Request{Type: "Pinger", Version: 1, Method: "Ping"}); err != nil {
		t.Errorf("Pinger on a connection to the site: %v", err)
	}
}
