package provision

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// Places that cloud-init looks into for a seed brought along by the image.
const (
	seedNoCloud     = "var/lib/cloud/seed/nocloud/"
	seedConfigDrive = "var/lib/cloud/seed/config_drive/openstack/latest/"
	seedPin         = "etc/cloud/cloud.cfg.d/99-slipway-datasource.cfg"
)

// InjectCloudInit writes the seed from which cloud-init configures the first boot, and
// pins the data source, so that no other is waited for. Files are readable to root alone.
func (c *Configurator) InjectCloudInit(cfg *config.MachineConfig) error {
	ci := cfg.CloudInit
	if ci == nil {
		return nil
	}
	var files map[string]string
	var err error
	pin := "NoCloud"
	switch ci.DataSource {
	case "", "nocloud":
		files, err = noCloud(cfg)
	case "configdrive":
		pin = "ConfigDrive"
		files, err = configDrive(cfg)
	default:
		return errors.NotValidf("cloud-init data source %q", ci.DataSource)
	}
	if err != nil {
		return err
	}
	files[seedPin] = "datasource_list: [ " + pin + ", None ]\n"
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := c.write(name, files[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// instanceID returns what tells cloud-init a new machine from a known one. It
// stays the same when the same order is repeated.
func instanceID(cfg *config.MachineConfig) string {
	for _, id := range []string{cfg.CloudInit.InstanceID, cfg.Hostname, cfg.Host} {
		if id != "" {
			return id
		}
	}
	return "slipway"
}

// userData returns the config's user data, or the least that is valid.
func userData(cfg *config.MachineConfig) string {
	if cfg.CloudInit.UserData == "" {
		return "#cloud-config\n{}\n"
	}
	return string(cfg.CloudInit.UserData)
}

// noCloud gives the files of the NoCloud data source. Values are written as
// JSON strings, which YAML reads the same.
func noCloud(cfg *config.MachineConfig) (map[string]string, error) {
	meta := map[string]string{}
	maps.Copy(meta, cfg.CloudInit.MetaData)
	meta["instance-id"] = instanceID(cfg)
	if cfg.Hostname != "" {
		meta["local-hostname"] = cfg.Hostname
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		k, kerr := json.Marshal(key)
		v, verr := json.Marshal(meta[key])
		if kerr != nil || verr != nil {
			return nil, errors.NotValidf("meta data %q", key)
		}
		text.WriteString(string(k) + ": " + string(v) + "\n")
	}
	files := map[string]string{seedNoCloud + "meta-data": text.String(), seedNoCloud + "user-data": userData(cfg)}
	if n := cfg.CloudInit.NetworkData; n != "" {
		files[seedNoCloud+"network-config"] = string(n)
	}
	return files, nil
}

// configDrive gives the files of an OpenStack config drive, version latest.
func configDrive(cfg *config.MachineConfig) (map[string]string, error) {
	meta := map[string]any{"uuid": instanceID(cfg), "meta": cfg.CloudInit.MetaData}
	if cfg.Hostname != "" {
		meta["hostname"] = cfg.Hostname
		meta["name"] = cfg.Hostname
	}
	b, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return nil, errors.Annotate(err, "cannot encode meta data")
	}
	files := map[string]string{seedConfigDrive + "meta_data.json": string(b) + "\n", seedConfigDrive + "user_data": userData(cfg)}
	if n := cfg.CloudInit.NetworkData; n != "" {
		if !json.Valid([]byte(n)) {
			return nil, errors.NotValidf("network data of a config drive (want JSON)")
		}
		files[seedConfigDrive+"network_data.json"] = string(n)
	}
	return files, nil
}
