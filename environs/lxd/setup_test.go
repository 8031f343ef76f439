package lxd_test

import (
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
)

func TestSetUpMakesWhatIsMissing(t *testing.T) {
	s := lxdtest.NewServer(t)
	if err := lxd.SetUp(t.Context(), s.Address); err != nil {
		t.Errorf("SetUp of a server that is ready = %v", err)
	}
	for _, c := range s.Calls() {
		if !strings.HasPrefix(c, "GET ") {
			t.Errorf("%s was called although nothing was missing", c)
		}
	}
	s.Bare()
	for range 2 { // the second time there is nothing left to do
		if err := lxd.SetUp(t.Context(), s.Address); err != nil || s.Pool() != "default" {
			t.Errorf("SetUp of a bare server = %v, root disks are in %q", err, s.Pool())
		}
	}
	s.Bare()
	s.Fail(func(call string) *lxdtest.Failure {
		if call == "POST /1.0/storage-pools" {
			return &lxdtest.Failure{Code: 409, Text: "Storage pool already exists"}
		}
		return nil
	})
	if err := lxd.SetUp(t.Context(), s.Address); err != nil {
		t.Errorf("SetUp beside somebody else's = %v", err)
	}
	if err := lxd.SetUp(t.Context(), "unix:///nonexistent"); err == nil {
		t.Error("SetUp without a server succeeded")
	}
	if lxd.Usable(t.Context(), s.Address) != nil || lxd.Usable(t.Context(), "unix:///nonexistent") == nil {
		t.Error("Usable is wrong about a server that is there, or one that is not")
	}
}
