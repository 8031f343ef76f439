package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

const sum256 = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func valid() config.MachineConfig {
	return config.MachineConfig{
		Host:     "rack1-07",
		Hostname: "node-7.example.com",
		Image:    config.Image{URLs: []string{"https://images.example.com/debian.raw.zst"}, Checksum: sum256},
	}
}

func TestValidateAcceptsTheLeast(t *testing.T) {
	c := valid()
	if err := c.Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func TestValidateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*config.MachineConfig)
		want string
	}{
		{"unknown mode", func(c *config.MachineConfig) { c.Mode = "Provision" }, `mode "Provision" (want provision,`},
		{"no image", func(c *config.MachineConfig) { c.Image.URLs = nil }, "image without a URL"},
		{"image from the file system", func(c *config.MachineConfig) { c.Image.URLs = []string{"file://x/dev/zero"} }, `scheme "file"`},
		{"neither checksum nor signature", func(c *config.MachineConfig) { c.Image.Checksum = "" }, "allow-unverified switches this check off"},
		{"checksum of the wrong length", func(c *config.MachineConfig) { c.Image.Checksum = "sha512:" + sum256[7:] }, "want sha256: and 64 digits"},
		{"checksum of md5", func(c *config.MachineConfig) { c.Image.Checksum = "md5:d41d8cd98f00b204e9800998ecf8427e" }, "want sha256: and 64 digits"},
		{"signature without key", func(c *config.MachineConfig) { c.Image.Signature.URL = "https://x/y.minisig" }, "both a URL and a public key"},
		{"hostname with a blank", func(c *config.MachineConfig) { c.Hostname = "a b" }, `hostname "a b"`},
		{"name server by name", func(c *config.MachineConfig) { c.DNS = []string{"dns.example.com"} }, "want an IP address"},
		{"kernel parameter with a quote", func(c *config.MachineConfig) { c.Kernel.Append = []string{`a="b"`} }, "kernel parameter"},
		{"kernel parameter with a newline", func(c *config.MachineConfig) { c.Kernel.Append = []string{"a\ninit=/bin/sh"} }, "kernel parameter"},
		{"kernel parameter with a command", func(c *config.MachineConfig) { c.Kernel.Replace = []string{"a=$(reboot)"} }, "kernel parameter"},
		{"label value with a blank", func(c *config.MachineConfig) { c.Kubelet = &config.Kubelet{Labels: map[string]string{"zone": "a b"}} }, `value "a b"`},
		{"label key with two slashes", func(c *config.MachineConfig) { c.Kubelet = &config.Kubelet{Labels: map[string]string{"a/b/c": "x"}} }, `label key "a/b/c"`},
		{"provider id with a quote", func(c *config.MachineConfig) { c.Kubelet = &config.Kubelet{ProviderID: `x://"y`} }, "provider id"},
		{"cloud-init source", func(c *config.MachineConfig) { c.CloudInit = &config.CloudInit{DataSource: "NoCloud"} }, "want nocloud or configdrive"},
		{"rescue mode in capitals", func(c *config.MachineConfig) { c.Rescue.Mode = "Shell" }, "want reboot, retry, shell or wait"},
		{"finish", func(c *config.MachineConfig) { c.Finish = "halt" }, "want poweroff, reboot or kexec"},
		{"file that climbs", func(c *config.MachineConfig) { c.Files = []config.File{{Path: "/etc/../../x"}} }, "want a clean absolute path"},
		{"namespaces above 100 percent", func(c *config.MachineConfig) {
			c.Namespaces = []config.NVMeCtrl{{Controller: "/dev/nvme0", Namespaces: []config.NVMeNamespace{{Label: "a", Percent: 60}, {Label: "b", Percent: 50}}}}
		}, "110 %"},
		{"controller that is a namespace", func(c *config.MachineConfig) { c.Namespaces = []config.NVMeCtrl{{Controller: "/dev/nvme0n1"}} }, "want /dev/nvmeN"},
		{"layout without a root", func(c *config.MachineConfig) {
			c.Layout = &config.Layout{Partitions: []config.Partition{{Label: "a", FileSystem: "ext4", MountPoint: "/srv"}}}
		}, `without a mount point "/"`},
		{"empty keep-disks entry", func(c *config.MachineConfig) { c.KeepDisks = []string{" "} }, "keep-disks"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := valid()
			tc.edit(&c)
			err := c.Validate()
			if !errors.Is(err, errors.NotValid) || !strings.Contains(fmt.Sprint(err), tc.want) {
				t.Errorf("Validate() = %v, want NotValid with %q", err, tc.want)
			}
		})
	}
}

func TestValidateListsAllFaults(t *testing.T) {
	c := valid()
	c.Hostname, c.Finish = "-", "halt"
	got := fmt.Sprint(c.Validate())
	if !strings.Contains(got, `hostname "-"`) || !strings.Contains(got, "; finish") {
		t.Errorf("Validate() = %s, want both faults", got)
	}
}

func TestChecksumInCapitalsIsRead(t *testing.T) {
	i := config.Image{Checksum: "SHA256:" + strings.ToUpper(sum256[7:])}
	algorithm, sum, err := i.ParseChecksum()
	if err != nil || algorithm != "sha256" || fmt.Sprintf("%x", sum) != sum256[7:] {
		t.Errorf("ParseChecksum() = %q %x %v", algorithm, sum, err)
	}
}

func TestNothingSecretIsPrinted(t *testing.T) {
	const planted = "hunter2-planted"
	c := valid()
	c.Files = []config.File{{Path: "/etc/x", Content: planted}}
	c.CloudInit = &config.CloudInit{UserData: planted, NetworkData: planted}
	c.Commands = []string{"join --token " + planted}
	c.PostCmds = []string{"set password=" + planted}
	c.Image.URLs = append(c.Image.URLs, "https://user:"+planted+"@x/y?sig="+planted)
	b := config.Boot{Server: "https://x", Host: "h", Token: planted}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, v := range []any{c, &c, b, &b, b.Token, c.Files[0], *c.CloudInit, config.Exchange{Token: planted}} {
			got := fmt.Sprintf(format, v)
			if strings.Contains(got, planted) || strings.Contains(got, fmt.Sprintf("%x", planted)) {
				t.Errorf("%s of %T prints the secret: %s", format, v, got)
			}
		}
	}
	if c.Files[0].Content != planted || c.CloudInit.UserData != planted {
		t.Error("printing has changed the config")
	}
}

func TestRedact(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"password=x", "password=[redacted]"},
		{"token: x", "token: [redacted]"},
		{"SECRET=x y", "SECRET=[redacted] y"},
		{"--password x", "--password [redacted]"},
		{"-password=x", "-password=[redacted]"},
		{"--db-password 'a b' z", "--db-password [redacted] z"},
		{`api_key="a b" z`, "api_key=[redacted] z"},
		{"auth\t=\tx", "auth\t=\t[redacted]"},
		{"token=a:b=c", "token=[redacted]"},
		{"monkey=banana", "monkey=banana"},
		{"turkey: dinner", "turkey: dinner"},
		{"https://x/?token=abc", "https://x/?token=[redacted]"},
		{"nothing to see", "nothing to see"},
	} {
		if got := config.Redact(tc.in); got != tc.want {
			t.Errorf("Redact(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestLayoutRules(t *testing.T) {
	good := func() config.Layout {
		return config.Layout{
			Partitions: []config.Partition{
				{Label: "efi", SizeMiB: 512, FileSystem: "vfat", MountPoint: "/boot/efi"},
				{Label: "pv"},
			},
			LVM: &config.LVM{VolumeGroup: "vg0", Partition: 2, Volumes: []config.Volume{
				{Name: "swap", SizeMiB: 1024, FileSystem: "swap"},
				{Name: "root", FileSystem: "ext4", MountPoint: "/"},
			}},
		}
	}
	l := good()
	if err := l.Validate(); err != nil {
		t.Fatalf("Validate() = %v, want nil", err)
	}
	for _, tc := range []struct {
		name string
		edit func(*config.Layout)
	}{
		{"no partition", func(l *config.Layout) { l.Partitions = nil }},
		{"two labels alike", func(l *config.Layout) { l.Partitions[1].Label = "efi" }},
		{"label with a slash", func(l *config.Layout) { l.Partitions[0].Label = "a/b" }},
		{"rest before the last", func(l *config.Layout) { l.Partitions[0].SizeMiB = 0 }},
		{"unknown file system", func(l *config.Layout) { l.Partitions[0].FileSystem = "zfs" }},
		{"mount point that climbs", func(l *config.Layout) { l.Partitions[0].MountPoint = "/a/../b" }},
		{"mount point of swap", func(l *config.Layout) { l.LVM.Volumes[0].MountPoint = "/swap" }},
		{"mount point twice", func(l *config.Layout) { l.Partitions[0].MountPoint = "/" }},
		{"bad type", func(l *config.Layout) { l.Partitions[0].TypeGUID = "efi" }},
		{"volume group name that is an option", func(l *config.Layout) { l.LVM.VolumeGroup = "-f" }},
		{"partition out of range", func(l *config.Layout) { l.LVM.Partition = 3 }},
		{"partition with a file system below LVM", func(l *config.Layout) { l.LVM.Partition = 1 }},
		{"volume without size before the last", func(l *config.Layout) { l.LVM.Volumes[0].SizeMiB = 0 }},
		{"two volumes alike", func(l *config.Layout) { l.LVM.Volumes[0].Name = "root" }},
	} {
		l := good()
		tc.edit(&l)
		if err := l.Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: Validate() = %v, want NotValid", tc.name, err)
		}
	}
}

func TestNetworkTakesIPv6(t *testing.T) {
	n := config.Network{
		Bonds:  []config.Bond{{Name: "bond0", Members: []string{"eth0", "02:00:00:00:00:02"}}},
		VLANs:  []config.VLAN{{ID: 100, Parent: "bond0"}},
		Static: []config.Address{{Link: "bond0.100", Address: "2001:db8::5/64", Gateway: "2001:db8::1"}},
		DNS:    []string{"2001:db8::53"},
	}
	if err := n.Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
	n.Static[0].Gateway = "192.0.2.1"
	if err := n.Validate(); !errors.Is(err, errors.NotValid) {
		t.Errorf("gateway of another family: Validate() = %v, want NotValid", err)
	}
	n.Static, n.VLANs[0].ID = nil, 4095
	if err := n.Validate(); !errors.Is(err, errors.NotValid) {
		t.Errorf("VLAN 4095: Validate() = %v, want NotValid", err)
	}
	n.VLANs, n.Bonds[0].Mode = nil, "lacp"
	if err := n.Validate(); !errors.Is(err, errors.NotValid) {
		t.Errorf("bond mode lacp: Validate() = %v, want NotValid", err)
	}
}
