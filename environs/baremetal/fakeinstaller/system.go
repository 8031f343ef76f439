package fakeinstaller

import (
	"context"
	"net/netip"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/environs/userdata"
	"github.com/slipway-project/slipway/provision/config"
)

// system is an installed system that has started: it runs its agent until it is switched off.
func (i *Installer) system(ctx context.Context, s *fakebmc.System, data config.Secret) {
	if i.o.Agent == nil || data == "" {
		return
	}
	a, err := agentOf(data)
	if err != nil {
		if !errors.Is(err, errors.NotFound) {
			logger.Infof("machine %d runs no agent: %v", s.Number(), err)
		}
		return
	}
	a.Addresses = network.NewAddresses(addressOf(s.Number()))
	if err := i.o.Agent(ctx, a); err != nil && ctx.Err() == nil {
		logger.Infof("agent of machine %s on machine %d has ended: %v", a.MachineID, s.Number(), err)
	}
}

// agentOf reads the agent file that cloud-init would write. The error satisfies
// errors.NotFound if there is none.
func agentOf(data config.Secret) (simulated.Agent, error) {
	var none simulated.Agent
	var cloud struct {
		Files []struct{ Path, Content string } `yaml:"write_files"`
	}
	if yaml.Unmarshal([]byte(data), &cloud) != nil { // its error quotes the text
		return none, errors.NotValidf("user data that is no YAML")
	}
	for _, file := range cloud.Files {
		if file.Path != userdata.AgentFilePath {
			continue
		}
		var f agentfile.File
		if yaml.Unmarshal([]byte(file.Content), &f) != nil {
			return none, errors.NotValidf("agent file in the user data")
		}
		if err := f.Validate(); err != nil {
			return none, errors.Annotate(err, "cannot use agent file in the user data")
		}
		id, err := tag.ParseMachineTag(f.Tag)
		if err != nil {
			return none, errors.Annotate(err, "cannot use agent file in the user data")
		}
		return simulated.Agent{
			MachineID: id.Id(), ModelUUID: f.ModelUUID, Nonce: f.Nonce, Password: f.Password, APIAddresses: f.APIAddresses, CACert: f.CACert,
		}, nil
	}
	return none, errors.NotFoundf("agent file in the user data")
}

// addressOf returns an address of the machine of that number: one of those for measurements
// (RFC 2544), which nobody has.
func addressOf(number int) string {
	return netip.AddrFrom4([4]byte{198, 18 + byte(number>>16)&1, byte(number >> 8), byte(number)}).String()
}
