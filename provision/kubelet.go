package provision

import (
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// Files of the kubelet's configuration. Which of them are there says what was given; the
// unit's drop-in reads whichever is.
const (
	kubeletDir    = "etc/kubernetes/kubelet.conf.d/"
	kubeletBoth   = kubeletDir + "10-slipway-kubelet-extra-args.conf"
	kubeletID     = kubeletDir + "10-slipway-provider-id.conf"
	kubeletLabels = kubeletDir + "20-slipway-node-labels.conf"
	kubeletUnit   = "etc/systemd/system/kubelet.service.d/20-slipway.conf"
)

// ConfigureKubelet writes kubelet drop-in configs for provider-id and node labels. Values
// are checked first (errors.NotValid), since they end up on a command line. Files of an
// earlier run that no longer apply are removed.
func (c *Configurator) ConfigureKubelet(cfg *config.MachineConfig) error {
	k := cfg.Kubelet
	if k == nil {
		k = &config.Kubelet{}
	}
	if err := k.Validate(); err != nil {
		return errors.Annotate(err, "cannot configure kubelet")
	}
	var labels []string
	for key, value := range k.Labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	var args []string
	if k.ProviderID != "" {
		args = append(args, "--provider-id="+k.ProviderID)
	}
	if len(labels) > 0 {
		args = append(args, "--node-labels="+strings.Join(labels, ","))
	}
	want := map[string]bool{
		kubeletBoth:   k.ProviderID != "" && len(labels) > 0,
		kubeletID:     k.ProviderID != "" && len(labels) == 0,
		kubeletLabels: k.ProviderID == "" && len(labels) > 0,
		kubeletUnit:   len(args) > 0,
	}
	for _, name := range []string{kubeletBoth, kubeletID, kubeletLabels, kubeletUnit} {
		var err error
		switch {
		case !want[name]:
			err = c.remove(name)
		case name == kubeletUnit:
			err = c.write(name, "[Service]\nEnvironmentFile=-/"+kubeletBoth+"\nEnvironmentFile=-/"+kubeletID+"\nEnvironmentFile=-/"+kubeletLabels+"\n", 0o644)
		default:
			err = c.write(name, `KUBELET_EXTRA_ARGS="`+strings.Join(args, " ")+"\"\n", 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
