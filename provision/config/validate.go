package config

import (
	"encoding/hex"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/juju/errors"
)

var (
	hostLabel   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	kernelParam = regexp.MustCompile(`^[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:/=@+%~-]*)?$`)
	efiLabel    = regexp.MustCompile(`^[A-Za-z0-9_. -]{1,64}$`)
	nvmeCtrl    = regexp.MustCompile(`^/dev/nvme[0-9]+$`)
	labelName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	providerID  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9._~:/%@+-]+$`)
)

// Validate returns an error satisfying errors.NotValid whose text lists all
// that is wrong, joined by "; ", so that one round of editing is enough.
func (c *MachineConfig) Validate() error {
	var faults []string
	note := func(err error) {
		if err != nil {
			faults = append(faults, err.Error())
		}
	}
	switch c.Mode {
	case "", ModeProvision, ModeDryRun:
		note(c.Image.Validate())
	case ModeDeprovision, ModeSoftDeprovision:
	default:
		note(errors.NotValidf("mode %q (want provision, deprovision, soft-deprovision or dry-run)", c.Mode))
	}
	note(checkHostname(c.Hostname))
	if c.Layout != nil {
		note(c.Layout.Validate())
	}
	note(c.checkNVMe())
	note(c.checkNames())
	note(c.Kernel.validate())
	note(c.Kubelet.Validate())
	note(c.checkChoices())
	for _, f := range c.Files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" {
			note(errors.NotValidf("file path %q (want a clean absolute path)", f.Path))
		}
		if f.Mode > 0o7777 {
			note(errors.NotValidf("mode %o of file %q", f.Mode, f.Path))
		}
	}
	if len(faults) > 0 {
		return errors.NewNotValid(nil, strings.Join(faults, "; "))
	}
	return nil
}

// Validate checks the image alone; errors satisfy errors.NotValid.
func (i *Image) Validate() error {
	if len(i.URLs) == 0 {
		return errors.NotValidf("image without a URL")
	}
	for _, s := range append([]string{i.Signature.URL}, i.URLs...) {
		if s == "" {
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return errors.NotValidf("image URL %q", RedactURL(s))
		}
		if u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "oci" {
			return errors.NotValidf("scheme %q of an image URL (want http, https or oci)", u.Scheme)
		}
	}
	if i.Checksum != "" {
		if _, _, err := i.ParseChecksum(); err != nil {
			return err
		}
	}
	if i.Of != "" && i.Of != OfFile && i.Of != OfContent {
		return errors.NotValidf("checksum-of %q (want file or content)", i.Of)
	}
	if (i.Signature.URL == "") != (i.Signature.PublicKey == "") {
		return errors.NotValidf("image signature without both a URL and a public key")
	}
	if i.Checksum == "" && i.Signature.URL == "" && !i.Unverified && !i.pinned() {
		return errors.NotValidf("image with neither checksum nor signature (allow-unverified switches this check off)")
	}
	return nil
}

// pinned reports whether all URLs are OCI references by digest, which say themselves
// what is right.
func (i *Image) pinned() bool {
	for _, u := range i.URLs {
		if !strings.HasPrefix(u, "oci://") || !strings.Contains(u, "@sha256:") {
			return false
		}
	}
	return true
}

// ParseChecksum splits "sha256:HEX" or "sha512:HEX" into the algorithm's name,
// in lower case, and the sum. Without a prefix the length decides.
func (i *Image) ParseChecksum() (string, []byte, error) {
	algorithm, text, found := strings.Cut(i.Checksum, ":")
	if !found {
		algorithm, text = "", i.Checksum
	}
	sum, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return "", nil, errors.NotValidf("image checksum %q (want hexadecimal digits)", i.Checksum)
	}
	algorithm = strings.ToLower(algorithm)
	switch {
	case len(sum) == 32 && (algorithm == "" || algorithm == "sha256"):
		return "sha256", sum, nil
	case len(sum) == 64 && (algorithm == "" || algorithm == "sha512"):
		return "sha512", sum, nil
	}
	return "", nil, errors.NotValidf("image checksum %q (want sha256: and 64 digits, or sha512: and 128)", i.Checksum)
}

func checkHostname(name string) error {
	if name == "" {
		return nil
	}
	if len(name) > 253 {
		return errors.NotValidf("hostname of %d characters (want 253 at most)", len(name))
	}
	for _, l := range strings.Split(name, ".") {
		if !hostLabel.MatchString(l) {
			return errors.NotValidf("hostname %q", name)
		}
	}
	return nil
}

func (c *MachineConfig) checkNVMe() error {
	seen := map[string]bool{}
	for _, n := range c.Namespaces {
		if !nvmeCtrl.MatchString(n.Controller) || seen[n.Controller] {
			return errors.NotValidf("NVMe controller %q (want /dev/nvmeN, each once)", n.Controller)
		}
		seen[n.Controller] = true
		sum := 0
		for _, ns := range n.Namespaces {
			if ns.Label == "" || ns.Percent < 1 || ns.Percent > 100 {
				return errors.NotValidf("namespace %q of %d %% on %s", ns.Label, ns.Percent, n.Controller)
			}
			if ns.BlockSize != 0 && ns.BlockSize != 512 && ns.BlockSize != 4096 {
				return errors.NotValidf("block size %d on %s (want 512 or 4096)", ns.BlockSize, n.Controller)
			}
			sum += ns.Percent
		}
		if len(n.Namespaces) == 0 || sum > 100 {
			return errors.NotValidf("%d namespaces of %d %% together on %s", len(n.Namespaces), sum, n.Controller)
		}
	}
	return nil
}

// checkNames checks the values that end up in files of the installed system.
func (c *MachineConfig) checkNames() error {
	for _, d := range c.DNS {
		if _, err := netip.ParseAddr(d); err != nil {
			return errors.NotValidf("name server %q (want an IP address)", d)
		}
	}
	for _, s := range c.Search {
		if err := checkHostname(s); err != nil || s == "" {
			return errors.NotValidf("search domain %q", s)
		}
	}
	if !efiLabel.MatchString(c.Label()) {
		return errors.NotValidf("EFI label %q", c.EFILabel)
	}
	if c.VirtualFns < 0 || c.VirtualFns > 1024 {
		return errors.NotValidf("%d virtual functions", c.VirtualFns)
	}
	for _, k := range c.KeepDisks {
		if strings.TrimSpace(k) == "" {
			return errors.NotValidf("empty entry of keep-disks")
		}
	}
	return nil
}

func (c *MachineConfig) checkChoices() error {
	switch c.Rescue.Mode {
	case "", RescueReboot, RescueRetry, RescueShell, RescueWait:
	default:
		return errors.NotValidf("rescue mode %q (want reboot, retry, shell or wait)", c.Rescue.Mode)
	}
	switch c.Finish {
	case "", FinishPowerOff, FinishReboot, FinishKexec:
	default:
		return errors.NotValidf("finish %q (want poweroff, reboot or kexec)", c.Finish)
	}
	if c.CloudInit != nil {
		switch c.CloudInit.DataSource {
		case "", "nocloud", "configdrive":
		default:
			return errors.NotValidf("cloud-init data source %q (want nocloud or configdrive)", c.CloudInit.DataSource)
		}
	}
	return nil
}

func (k *Kernel) validate() error {
	for _, p := range append(append([]string(nil), k.Append...), k.Replace...) {
		if !kernelParam.MatchString(p) {
			return errors.NotValidf("kernel parameter %q (want key or key=value without blanks, quotes or shell characters)", p)
		}
	}
	return nil
}

// Validate checks the provider id and the labels by the rules of Kubernetes for
// label syntax. A nil Kubelet is valid.
func (k *Kubelet) Validate() error {
	if k == nil {
		return nil
	}
	if k.ProviderID != "" && !providerID.MatchString(k.ProviderID) {
		return errors.NotValidf("provider id %q (want scheme://path)", k.ProviderID)
	}
	for key, value := range k.Labels {
		prefix, name, found := strings.Cut(key, "/")
		if !found {
			prefix, name = "", key
		}
		if !labelName.MatchString(name) || found && (checkHostname(prefix) != nil || prefix == "") {
			return errors.NotValidf("label key %q", key)
		}
		if value != "" && !labelName.MatchString(value) {
			return errors.NotValidf("value %q of label %q", value, key)
		}
	}
	return nil
}
