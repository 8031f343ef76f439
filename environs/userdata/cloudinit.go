package userdata

import (
	"fmt"
	"slices"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/environs"
)

// header starts every user data that is a mapping.
const header = "#cloud-config\n"

// longest is how many bytes of additional user data are taken.
const longest = 256 << 10

// mapping is user data, or a part of it, as YAML has it.
type mapping = map[string]any

// What additional user data may do with a key that is ours.
var (
	// refused are the keys that decide how and by whom a machine is run, each
	// with what to do instead.
	refused = map[string]string{
		"runcmd":               "use preruncmd or postruncmd",
		"bootcmd":              "use preruncmd",
		"users":                "the users are the image's own",
		"ssh_authorized_keys":  "set authorized-keys",
		"merge_how":            "the parts are merged in one way only",
		"merge_type":           "the parts are merged in one way only",
		"cloud_init_modules":   "the modules are the image's own",
		"cloud_config_modules": "the modules are the image's own",
		"cloud_final_modules":  "the modules are the image's own",
		"datasource_list":      "the data source is the provider's",
	}
	// overriding are the keys of ours that additional user data may replace.
	overriding = []string{"package_update", "package_upgrade"}
)

// CheckExtra returns an error satisfying errors.NotValid that says what CloudInit
// would refuse in a model's cloudinit-userdata.
func CheckExtra(text string) error {
	_, err := parseExtra(text)
	return err
}

// parseExtra reads additional user data.
func parseExtra(text string) (mapping, error) {
	if len(text) > longest {
		return nil, errors.NotValidf("cloudinit-userdata of %d bytes (at most %d)", len(text), longest)
	}
	var extra mapping
	if err := yaml.Unmarshal([]byte(text), &extra); err != nil {
		return nil, errors.NewNotValid(nil, "cloudinit-userdata is not a YAML mapping")
	}
	for key, instead := range refused {
		if _, there := extra[key]; there {
			return nil, errors.NewNotValid(nil, fmt.Sprintf("cloudinit-userdata may not set %q: %s", key, instead))
		}
	}
	for _, key := range []string{"preruncmd", "postruncmd", "packages", "write_files"} {
		if _, ok := extra[key].([]any); extra[key] != nil && !ok {
			return nil, errors.NewNotValid(nil, fmt.Sprintf("cloudinit-userdata: %q is not a list", key))
		}
	}
	return extra, checkWrites(extra["write_files"])
}

// checkWrites refuses files that would replace the agent's own.
func checkWrites(files any) error {
	list, _ := files.([]any)
	for _, f := range list {
		file, _ := f.(mapping)
		path, ok := file["path"].(string)
		switch {
		case !ok || !strings.HasPrefix(path, "/"):
			return errors.NewNotValid(nil, `cloudinit-userdata: each of "write_files" needs an absolute path`)
		case strings.Contains(path, "/../"), strings.HasPrefix(path, DataDir), path == unitPath, path == enablingPath:
			return errors.NewNotValid(nil, fmt.Sprintf("cloudinit-userdata may not write %s", path))
		}
	}
	return nil
}

// CloudInit returns the user data of a new instance. Its errors satisfy
// errors.NotValid.
//
// What the model's cloudinit-userdata sets comes on top: preruncmd and
// postruncmd are run before and after the agent is started, its packages and
// files are added, package_update and package_upgrade replace the model's
// settings, and every other key is passed on as it is. Keys that decide who
// runs the machine are refused.
func CloudInit(p Params) ([]byte, error) {
	files, err := Files(p)
	if err != nil {
		return nil, err
	}
	extra, err := parseExtra(p.Config.CloudInitUserData)
	if err != nil {
		return nil, err
	}
	data, err := own(p, files)
	if err != nil {
		return nil, err
	}
	if err := merge(data, extra); err != nil {
		return nil, err
	}
	out, err := yaml.Marshal(data)
	if err != nil {
		return nil, errors.Annotate(err, "cannot write user data")
	}
	return append([]byte(header), out...), nil
}

// own returns the user data without the model's own additions.
func own(p Params, files []File) (mapping, error) {
	c := p.Config
	data := mapping{
		"package_update":  c.EnableOSRefreshUpdate,
		"package_upgrade": c.EnableOSUpgrade,
		"runcmd": []any{
			[]any{"systemctl", "daemon-reload"},
			[]any{"systemctl", "enable", "--now", "--no-block", ServiceName},
		},
	}
	if keys := lines(c.AuthorizedKeys); len(keys) > 0 {
		data["ssh_authorized_keys"] = keys
	}
	if apt := aptOf(c); len(apt) > 0 {
		data["apt"] = apt
	}
	proxies, err := proxyFile(c)
	if err != nil {
		return nil, err
	}
	var writes []any
	if proxies != "" {
		writes = append(writes, writeFile(File{Path: "/etc/profile.d/slipway-proxy.sh", Mode: 0o644, Content: []byte(proxies)}))
	}
	for _, f := range files {
		if f.Link == "" && !(p.AgentFileLaid && f.Path == AgentFilePath) {
			writes = append(writes, writeFile(f))
		}
	}
	if writes != nil {
		data["write_files"] = writes
	}
	return data, nil
}

func writeFile(f File) any {
	return mapping{
		"path": f.Path, "owner": "root:root", "permissions": fmt.Sprintf("%04o", f.Mode.Perm()), "content": string(f.Content),
	}
}

// lines returns the lines of text that say something.
func lines(text string) []any {
	var out []any
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// aptOf returns what packages are fetched through.
func aptOf(c *environs.InstanceConfig) mapping {
	apt := mapping{}
	for key, value := range map[string]string{
		"http_proxy": c.AptProxies.HTTP, "https_proxy": c.AptProxies.HTTPS, "ftp_proxy": c.AptProxies.FTP,
	} {
		if value != "" {
			apt[key] = value
		}
	}
	if c.AptMirror != "" {
		apt["primary"] = []any{mapping{"arches": []any{"default"}, "uri": c.AptMirror}}
	}
	return apt
}

// proxyFile returns the script that every login shell reads; empty if there
// are no proxies.
func proxyFile(c *environs.InstanceConfig) (string, error) {
	var out strings.Builder
	for _, p := range []struct{ name, value string }{
		{"http_proxy", c.Proxies.HTTP}, {"https_proxy", c.Proxies.HTTPS},
		{"ftp_proxy", c.Proxies.FTP}, {"no_proxy", c.Proxies.NoProxy},
	} {
		if p.value == "" {
			continue
		}
		if strings.ContainsAny(p.value, "\r\n\x00") {
			return "", errors.NotValidf("%s of more than one line", strings.ReplaceAll(p.name, "_", "-"))
		}
		for _, name := range []string{p.name, strings.ToUpper(p.name)} {
			fmt.Fprintf(&out, "export %s='%s'\n", name, strings.ReplaceAll(p.value, "'", `'\''`))
		}
	}
	return out.String(), nil
}

// merge puts a model's additions on top of data.
func merge(data, extra mapping) error {
	commands, _ := data["runcmd"].([]any)
	for key, value := range extra {
		switch {
		case value == nil: // set to nothing
		case key == "preruncmd":
			commands = slices.Concat(value.([]any), commands)
		case key == "postruncmd":
			commands = slices.Concat(commands, value.([]any))
		case key == "write_files":
			ours, _ := data[key].([]any)
			data[key] = slices.Concat(ours, value.([]any))
		case key == "apt":
			if err := mergeApt(data, value); err != nil {
				return err
			}
		case data[key] == nil || slices.Contains(overriding, key):
			data[key] = value
		}
	}
	data["runcmd"] = commands
	return nil
}

// mergeApt adds to how packages are fetched what the model's settings leave
// open.
func mergeApt(data mapping, value any) error {
	theirs, ok := value.(mapping)
	if !ok {
		return errors.NewNotValid(nil, `cloudinit-userdata: "apt" is not a mapping`)
	}
	apt, _ := data["apt"].(mapping)
	if apt == nil {
		apt = mapping{}
	}
	for key, v := range theirs {
		if _, set := apt[key]; set {
			return errors.NewNotValid(nil, fmt.Sprintf("cloudinit-userdata may not set apt's %q: the model's settings do", key))
		}
		apt[key] = v
	}
	data["apt"] = apt
	return nil
}
