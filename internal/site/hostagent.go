package site

import (
	"context"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/environs/userdata"
)

// bootWith returns what simulated hosts run: the agent that their user data
// describes, whose program is run. Nil means that they run nothing.
func bootWith(run simulated.AgentFunc) func(ctx context.Context, host bmc.Address, userData string) {
	if run == nil {
		return nil
	}
	return func(ctx context.Context, host bmc.Address, text string) {
		agent, err := agentIn(text)
		if err != nil {
			logger.Warningf("simulated host %s runs no agent: %v", host, err)
			return
		}
		if err := run(ctx, agent); err != nil && ctx.Err() == nil {
			logger.Warningf("agent of machine-%s on simulated host %s has ended: %v", agent.MachineID, host, err)
		}
	}
}

// agentIn returns the agent whose file is in user data, as cloud-init would find
// it. No error quotes it.
func agentIn(text string) (simulated.Agent, error) {
	var data struct {
		Files []struct{ Path, Content string } `yaml:"write_files"`
	}
	if yaml.Unmarshal([]byte(text), &data) != nil {
		return simulated.Agent{}, errors.New("its user data is no YAML mapping")
	}
	for _, f := range data.Files {
		if f.Path != userdata.AgentFilePath {
			continue
		}
		var a struct {
			Tag          string   `yaml:"tag"`
			Password     string   `yaml:"password"`
			Nonce        string   `yaml:"nonce"`
			ModelUUID    string   `yaml:"model-uuid"`
			APIAddresses []string `yaml:"api-addresses"`
			CACert       string   `yaml:"ca-cert"`
		}
		if yaml.Unmarshal([]byte(f.Content), &a) != nil {
			return simulated.Agent{}, errors.Errorf("%s in its user data is not YAML", f.Path)
		}
		id, ok := api.MachineID(a.Tag)
		if !ok {
			return simulated.Agent{}, errors.Errorf("%s in its user data is no machine's", f.Path)
		}
		return simulated.Agent{
			MachineID: id, ModelUUID: a.ModelUUID, Nonce: a.Nonce, Password: a.Password, APIAddresses: a.APIAddresses, CACert: a.CACert,
		}, nil
	}
	return simulated.Agent{}, errors.Errorf("its user data has no file %s", userdata.AgentFilePath)
}
