//go:build e2e

package lxd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/providertest"
)

// A real daemon keeps the contract as the double in lxdtest does.
func TestConformance(t *testing.T) {
	agent := filepath.Join(t.TempDir(), "provisionerd")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\nexec sleep 86400\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	providertest.RunConformance(t, providertest.Config{
		New: func(t *testing.T) (environs.Provider, map[string]any) {
			provider := lxd.New(lxd.Options{Hosts: map[string]string{"a": daemon.address()}, AgentBinary: agent})
			return provider, map[string]any{lxd.ImageKey: "base", lxd.CloudInitKey: false, lxd.ProjectKey: daemon.project(t)}
		},
		Type: lxd.Name, BadPlacement: "zone=nowhere", Unmeetable: "cores=1000",
	})
}
