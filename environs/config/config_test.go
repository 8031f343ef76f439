package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/environs/config"
)

const uuid = "deadbeef-0bad-400d-8000-4b1d0d06f00d"

// with returns the least that a model has, and the given settings, as pairs of
// name and value.
func with(pairs ...any) map[string]any {
	attrs := map[string]any{"name": "m", "type": "simulated", "uuid": uuid}
	for i := 0; i < len(pairs); i += 2 {
		attrs[pairs[i].(string)] = pairs[i+1]
	}
	return attrs
}

func mustNew(t *testing.T, pairs ...any) *config.Config {
	t.Helper()
	cfg, err := config.New(with(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestNewRefuses(t *testing.T) {
	without := func(name string) map[string]any {
		attrs := with()
		delete(attrs, name)
		return attrs
	}
	for _, c := range []struct {
		name  string
		attrs map[string]any
		want  string
	}{
		{"a path", with("authorized-keys-path", "/x"), `authorized-keys-path cannot be kept in a model: set authorized-keys to the file's content`},
		{"a path before all else", map[string]any{"ca-cert-path": "x"}, `ca-cert-path cannot be kept`},
		{"no name", without("name"), "name missing from model configuration"},
		{"no type", without("type"), "type missing from model configuration"},
		{"no uuid", without("uuid"), "uuid missing from model configuration"},
		{"null name", with("name", nil), "name missing from model configuration"},
		{"empty name", with("name", ""), "empty name in model configuration"},
		{"bad name", with("name", "No_Good"), `invalid name "No_Good": want lower-case letters, digits and hyphens`},
		{"bad uuid", with("uuid", "x"+uuid), `invalid uuid "x` + uuid + `": want a UUID`},
		{"bad site", with("controller-uuid", "x"), `invalid controller-uuid "x": want a UUID`},
		{"bad version", with("agent-version", "new"), `invalid agent-version "new": want a version such as 2.0.0`},
		{"bad logging", with("logging-config", "a=b=c"), `invalid logging-config "a=b=c": `},
		{"bad base", with("default-base", "ubuntu"), `invalid default-base "ubuntu": base "ubuntu" (want name@version, such as ubuntu@24.04) not valid`},
		{"bad series", with("default-series", "nosuch"), `invalid default-series "nosuch": want the name of a series such as noble`},
		{"two bases", with("default-base", "ubuntu@22.04", "default-series", "noble"), `default-base "ubuntu@22.04" and default-series "noble" are not the same`},
		{"bad user data", with("cloudinit-userdata", "- a"), `invalid cloudinit-userdata "- a": want a YAML mapping`},
		{"reserved tag", with("resource-tags", "juju-x=1"), `invalid resource-tags "juju-x=1": tag "juju-x" uses the reserved prefix "juju-"`},
		{"malformed tags", with("resource-tags", "a"), `invalid resource-tags "a": want a list of key=value pairs`},
		{"tag no text", with("resource-tags", map[string]any{"a": 1}), "want a list of key=value pairs"},
		{"no bool", with("development", "maybe"), `invalid development "maybe": want true or false`},
		{"no enum", with("firewall-mode", "open"), `invalid firewall-mode "open": want one of instance, global, none`},
		{"no harvest mode", with("provisioner-harvest-mode", "some"), `want one of none, unknown, destroyed, all`},
		{"no number", with("num-provision-workers", "many"), `invalid num-provision-workers "many": want a whole number`},
		{"half a number", with("num-provision-workers", 1.5), `want a whole number`},
		{"no workers", with("num-provision-workers", 0), `invalid num-provision-workers "0": want a number from 1 to 1000`},
		{"no retries", with("provisioner-retry-count", -1), `want a number from 0 to 1000`},
		{"no duration", with("provisioner-retry-delay", "10"), `want a duration such as 30s or 5m`},
		{"negative duration", with("provisioner-retry-delay", "-1s"), `want a duration such as 30s or 5m`},
		{"list as text", with("apt-mirror", []any{"a"}), `invalid apt-mirror "[a]": want a string`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.New(c.attrs)
			if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("New = %v, %v, want %q", cfg, err, c.want)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	cfg := mustNew(t)
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"Name", cfg.Name(), "m"},
		{"Type", cfg.Type(), "simulated"},
		{"UUID", cfg.UUID(), uuid},
		{"AgentStream", cfg.AgentStream(), "released"},
		{"ImageStream", cfg.ImageStream(), "released"},
		{"DefaultBase", cfg.DefaultBase(), base.Default()},
		{"Development", cfg.Development(), false},
		{"EnableOSRefreshUpdate", cfg.EnableOSRefreshUpdate(), true},
		{"EnableOSUpgrade", cfg.EnableOSUpgrade(), true},
		{"FirewallMode", cfg.FirewallMode(), "instance"},
		{"HarvestMode", cfg.HarvestMode(), config.HarvestDestroyed},
		{"ProvisionWorkers", cfg.ProvisionWorkers(), 16},
		{"RetryCount", cfg.RetryCount(), 10},
		{"RetryDelay", cfg.RetryDelay(), 10 * time.Second},
		{"SSLHostnameVerification", cfg.SSLHostnameVerification(), true},
		{"Proxies", cfg.Proxies(), config.Proxies{}},
		{"AptProxies", cfg.AptProxies(), config.Proxies{}},
		{"LoggingConfig", cfg.LoggingConfig(), "<root>=INFO"},
		{"AuthorizedKeys", cfg.AuthorizedKeys() + cfg.AptMirror() + cfg.CloudInitUserData(), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s() = %v, want %v", c.name, c.got, c.want)
		}
	}
	if _, ok := cfg.AgentVersion(); ok {
		t.Error("AgentVersion() is set")
	}
	if tags := cfg.ResourceTags(); len(tags) != 0 {
		t.Errorf("ResourceTags() = %v", tags)
	}
}

func TestValuesAreKeptInOneForm(t *testing.T) {
	cfg := mustNew(t,
		"development", "TRUE", "num-provision-workers", "7", "provisioner-retry-count", 2.0,
		"provisioner-retry-delay", "90s", "resource-tags", "a=b c=d=e f=", "provisioner-harvest-mode", "ALL",
		"agent-version", "2.0-beta9", "default-series", "jammy", "port", 17070.0)
	n, ok := cfg.AgentVersion()
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"Development", cfg.Development(), true},
		{"ProvisionWorkers", cfg.ProvisionWorkers(), 7},
		{"RetryCount", cfg.RetryCount(), 2},
		{"RetryDelay", cfg.RetryDelay(), 90 * time.Second},
		{"HarvestMode", cfg.HarvestMode(), config.HarvestAll},
		{"AgentVersion", fmt.Sprint(n, ok), "2.0-beta9 true"},
		{"DefaultBase", cfg.DefaultBase().String(), "ubuntu@22.04"},
	} {
		if c.got != c.want {
			t.Errorf("%s() = %v, want %v", c.name, c.got, c.want)
		}
	}
	if want := map[string]string{"a": "b", "c": "d=e", "f": ""}; !reflect.DeepEqual(cfg.ResourceTags(), want) {
		t.Errorf("ResourceTags() = %v, want %v", cfg.ResourceTags(), want)
	}
	if want := map[string]any{"port": 17070.0}; !reflect.DeepEqual(cfg.UnknownAttrs(), want) {
		t.Errorf("UnknownAttrs() = %v, want %v", cfg.UnknownAttrs(), want)
	}
	data, err := json.Marshal(cfg.SetAttrs())
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	again, err := config.New(stored)
	if err != nil || !reflect.DeepEqual(again.AllAttrs(), cfg.AllAttrs()) {
		t.Errorf("stored and read back: %v, %v, want %v", again.AllAttrs(), err, cfg.AllAttrs())
	}
}

func TestOutdatedSafeMode(t *testing.T) {
	for _, c := range []struct {
		pairs []any
		want  config.HarvestMode
	}{
		{[]any{"provisioner-safe-mode", true}, config.HarvestDestroyed},
		{[]any{"provisioner-safe-mode", "false"}, config.HarvestAll},
		{[]any{"provisioner-safe-mode", false, "provisioner-harvest-mode", "none"}, config.HarvestNone},
	} {
		cfg := mustNew(t, c.pairs...)
		if got := cfg.HarvestMode(); got != c.want {
			t.Errorf("%v: HarvestMode() = %s, want %s", c.pairs, got, c.want)
		}
		if _, kept := cfg.AllAttrs()["provisioner-safe-mode"]; kept {
			t.Errorf("%v: the outdated setting was kept", c.pairs)
		}
	}
	for m, want := range map[config.HarvestMode][2]bool{
		config.HarvestNone: {false, false}, config.HarvestUnknown: {false, true},
		config.HarvestDestroyed: {true, false}, config.HarvestAll: {true, true},
	} {
		if got := [2]bool{m.Destroyed(), m.Unknown()}; got != want {
			t.Errorf("%s: destroyed, unknown = %v, want %v", m, got, want)
		}
	}
}

func TestProxies(t *testing.T) {
	cfg := mustNew(t, "http-proxy", "http://proxy.example.com:9000", "https-proxy", "p:1", "apt-ftp-proxy", "f", "no-proxy", "a,b", "apt-mirror", "http://m")
	if got, want := cfg.Proxies(), (config.Proxies{HTTP: "http://proxy.example.com:9000", HTTPS: "p:1", NoProxy: "a,b"}); got != want {
		t.Errorf("Proxies() = %+v, want %+v", got, want)
	}
	if got, want := cfg.AptProxies(), (config.Proxies{HTTP: "http://proxy.example.com:9000", HTTPS: "https://p:1", FTP: "ftp://f"}); got != want {
		t.Errorf("AptProxies() = %+v, want %+v", got, want)
	}
	if cfg.AptMirror() != "http://m" {
		t.Errorf("AptMirror() = %q", cfg.AptMirror())
	}
}

func TestImmutable(t *testing.T) {
	old := mustNew(t, "agent-version", "2.0.0")
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"name":          {"other", `cannot change name from "m" to "other"`},
		"type":          {"lxd", `cannot change type from "simulated" to "lxd"`},
		"uuid":          {strings.Replace(uuid, "d", "e", 1), `cannot change uuid from`},
		"firewall-mode": {"none", `cannot change firewall-mode from "instance" to "none"`},
		"agent-version": {"", `cannot clear agent-version`},
	} {
		next, err := old.Apply(map[string]any{name: c.value})
		if err != nil {
			t.Fatal(err)
		}
		if err := config.Validate(next, old); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Validate(%s) = %v, want %q", name, err, c.want)
		}
		if err := config.Validate(next, nil); err != nil {
			t.Errorf("Validate(%s) of a new model = %v", name, err)
		}
	}
	same, err := old.Apply(map[string]any{"name": "m", "firewall-mode": "instance", "development": true})
	if err != nil || config.Validate(same, old) != nil {
		t.Errorf("unchanged values: %v, %v", err, config.Validate(same, old))
	}
}

func TestConfigsAreValues(t *testing.T) {
	cfg := mustNew(t, "resource-tags", "a=b", "mine", "x")
	before := cfg.AllAttrs()
	attrs := cfg.AllAttrs()
	attrs["name"] = "changed"
	attrs["resource-tags"].(map[string]string)["a"] = "changed"
	cfg.ResourceTags()["a"] = "changed"
	cfg.UnknownAttrs()["mine"] = "changed"
	next, err := cfg.Apply(map[string]any{"mine": "y", "default-series": "jammy"})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cfg.AllAttrs(), before) {
		t.Errorf("cfg changed to %v", cfg.AllAttrs())
	}
	back, err := next.Remove([]string{"default-series", "never-set"})
	if err != nil || back.DefaultBase() != base.Default() || back.UnknownAttrs()["mine"] != "y" {
		t.Errorf("Remove = %v, %v", back.AllAttrs(), err)
	}
	if _, err := next.Remove([]string{"name"}); err == nil {
		t.Error("name was removed")
	}
	newer, err := next.Apply(map[string]any{"default-base": "ubuntu@20.04"})
	if err != nil || newer.DefaultBase().String() != "ubuntu@20.04" {
		t.Errorf("default-base over default-series: %v, %v", newer, err)
	}
	if next.Source("mine") != config.SourceModel || next.Source("ftp-proxy") != config.SourceDefault {
		t.Error("Source is wrong")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg); strings.Contains(text, "mine") {
		t.Errorf("a config prints as %s", text)
	}
}

func provider() config.Schema {
	return config.Schema{
		{Name: "rack-url", Mandatory: true, Immutable: true, Doc: "Where the rack is."},
		{Name: "rack-size", Kind: config.Int, Default: 8, Immutable: true, Doc: "How big it is."},
		{Name: "rack-key", Secret: true, Immutable: true, Values: []string{"k1", "k2"}, Doc: "What opens it."},
		{Name: "rack-fast", Kind: config.Bool, Doc: "Whether it is fast."},
	}
}

func TestUpdate(t *testing.T) {
	cfg := mustNew(t, "rack-url", "u", "rack-key", "k1", "stray", "s", "http-proxy", "p")
	for _, c := range []struct {
		name  string
		set   map[string]any
		reset []string
		want  string
	}{
		{"unknown", map[string]any{"cheese": "x"}, nil, `unknown setting "cheese": model-config lists those there are`},
		{"misspelt", map[string]any{"http-porxy": "x"}, nil, `unknown setting "http-porxy": did you mean http-proxy?`},
		{"unknown reset", nil, []string{"cheese"}, `unknown setting "cheese"`},
		{"both", map[string]any{"http-proxy": "x"}, []string{"http-proxy"}, `http-proxy is both set and reset`},
		{"immutable", map[string]any{"name": "x"}, nil, `cannot change name from "m" to "x"`},
		{"reset immutable", nil, []string{"firewall-mode"}, `cannot reset firewall-mode`},
		{"going back", map[string]any{"agent-downgrade": true}, nil, `agent-downgrade is changed by upgrading, not by setting it`},
		{"agent version", map[string]any{"agent-version": "2.0.0"}, nil, `agent-version is changed by upgrading, not by setting it`},
		{"path", map[string]any{"authorized-keys-path": "x"}, nil, `authorized-keys-path cannot be kept in a model`},
		{"bad value", map[string]any{"development": "x"}, nil, `invalid development "x": want true or false`},
		{"provider's bad value", map[string]any{"rack-fast": "x"}, nil, `invalid rack-fast "x": want true or false`},
		{"provider's immutable", map[string]any{"rack-size": 9.0}, nil, `cannot change rack-size from 8 to 9`},
		{"provider's secret", map[string]any{"rack-key": "k2"}, nil, `cannot change rack-key`},
		{"provider's bad secret", map[string]any{"rack-key": "hush"}, nil, `invalid rack-key: want one of k1, k2`},
		{"provider's mandatory", nil, []string{"rack-url"}, `cannot reset rack-url`},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, err := cfg.Update(config.Update{Set: c.set, Reset: c.reset, Provider: provider()})
			if !errors.Is(err, errors.NotValid) || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("Update = %v, %v, want %q", next, err, c.want)
			}
		})
	}
	next, err := cfg.Update(config.Update{
		Set:   map[string]any{"rack-fast": "true", "rack-size": "8", "name": "m", "num-provision-workers": "4"},
		Reset: []string{"http-proxy", "stray"}, Provider: provider(),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := with("rack-url", "u", "rack-key", "k1", "rack-fast", true, "rack-size", 8, "num-provision-workers", 4)
	if got := next.SetAttrs(); !maps.EqualFunc(got, want, func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("Update = %v, want %v", got, want)
	}
}

func TestCoerceForAProvider(t *testing.T) {
	if _, err := mustNew(t).Coerce(provider(), nil); err == nil || err.Error() != "rack-url missing from model configuration" {
		t.Errorf("Coerce = %v", err)
	}
	if _, err := mustNew(t, "rack-url", "").Coerce(provider(), nil); err == nil || err.Error() != "empty rack-url in model configuration" {
		t.Errorf("Coerce = %v", err)
	}
	stored := mustNew(t, "rack-url", "u", "rack-size", 9.0) // as JSON makes it
	cfg, err := stored.Coerce(provider(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.Coerce(provider(), stored); err != nil {
		t.Errorf("the same settings again: %v", err)
	}
	attrs, err := provider().Complete(cfg.UnknownAttrs())
	if err != nil || attrs.String("rack-url") != "u" || attrs.Int("rack-size") != 9 || attrs.Bool("rack-fast") {
		t.Errorf("Complete = %v, %v", attrs, err)
	}
}

func TestEveryFieldIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range config.Fields() {
		if seen[f.Name] {
			t.Errorf("%s is in the table twice", f.Name)
		}
		seen[f.Name] = true
		if !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: Doc = %q, want a sentence", f.Name, f.Doc)
		}
	}
	defaults := config.Fields().Defaults()
	coerced, err := config.Fields().Coerce(defaults)
	if err != nil || !reflect.DeepEqual(coerced, defaults) {
		t.Errorf("the defaults are not as they are kept: %v, %v", coerced, err)
	}
}
