package provision_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk/disktest"
	"github.com/slipway-project/slipway/provision/efi"
)

// efiRig returns a rig whose disk holds a system and whose variables are mounted.
func efiRig(t *testing.T) (*rig, efi.Vars) {
	t.Helper()
	r := newRig(t, nil)
	d, err := r.m.Open("/dev/sda", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeSystem(d); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	dir := filepath.Join(r.m.Dir, "sys/firmware/efi/efivars")
	r.m.Write("proc/mounts", "efivarfs "+dir+" efivarfs rw 0 0\n")
	return r, efi.NewVars(dir)
}

const otherGUID = "7A3C1F00-1B2C-4D5E-8F90-AABBCCDDEEFF"

func entries(t *testing.T, v efi.Vars) string {
	t.Helper()
	all, err := v.Entries()
	if err != nil {
		t.Fatal(err)
	}
	order, err := v.Order()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		out = append(out, fmt.Sprintf("%s %s", e, e.File))
	}
	return fmt.Sprintf("%s order %04X", strings.Join(out, ", "), order)
}

func TestEFIEntries(t *testing.T) {
	r, vars := efiRig(t)
	esp := "11111111-1111-4111-9111-111111111111"
	for _, o := range []efi.Option{
		{Label: "ubuntu", Partition: otherGUID, File: `\gone`}, // its disk is no more
		{Label: "slipway", Partition: esp, File: `\old`},       // ours, of an earlier run
		{Label: "ubuntu", Partition: esp, File: `\there`},      // of a partition that is there
	} {
		if _, err := vars.Create(o); err != nil {
			t.Fatal(err)
		}
	}
	s := newConfigurator(r)
	if err := s.RemoveEFIBootEntries(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := entries(t, vars), `Boot0002 "ubuntu" \there order [0002]`; got != want {
		t.Errorf("after removal: %s, want %s", got, want)
	}
	for range 2 {
		if err := s.CreateEFIBootEntry(t.Context(), "/dev/sda", "/dev/sda1"); err != nil {
			t.Fatal(err)
		}
		if got, want := entries(t, vars), `Boot0000 "slipway" \EFI\vendor\shimx64.efi, Boot0002 "ubuntu" \there order [0000 0002]`; got != want {
			t.Errorf("after creation: %s, want %s", got, want)
		}
	}
	all, err := vars.Entries()
	if err != nil || all[0].Number != 1 || all[0].Start != 2048 || all[0].Size != 32768 || all[0].Partition != esp || !all[0].Active {
		t.Errorf("entry = %+v, %v", all[0], err)
	}
	if log := r.m.Log(); strings.Contains(strings.Join(log, " "), "efibootmgr") {
		t.Errorf("a program was run: %v", log)
	}
}

func TestNoEntryWithoutAnESPOrVariables(t *testing.T) {
	r, vars := efiRig(t)
	if err := newConfigurator(r).CreateEFIBootEntry(t.Context(), "/dev/sda", ""); err != nil {
		t.Errorf("no partition: %v", err)
	}
	r.m.Write("proc/mounts", "")
	if err := newConfigurator(r).CreateEFIBootEntry(t.Context(), "/dev/sda", "/dev/sda1"); err != nil {
		t.Errorf("variables not mounted: %v", err)
	}
	if err := newConfigurator(r).RemoveEFIBootEntries(t.Context()); err != nil {
		t.Errorf("variables not mounted: %v", err)
	}
	if got := entries(t, vars); got != " order []" {
		t.Errorf("entries = %s", got)
	}
}

func TestNoLoaderOnTheESPIsAnError(t *testing.T) {
	r, _ := efiRig(t)
	s := newConfigurator(r)
	s.SetRootDir(tree(t, t.TempDir(), map[string]string{"boot/efi/EFI/vendor/readme": ""}))
	if err := s.CreateEFIBootEntry(t.Context(), "/dev/sda", "/dev/sda1"); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "vendor") {
		t.Errorf("CreateEFIBootEntry = %v, want NotFound naming the folders", err)
	}
}

const query = `
Device #1:
Configurations:                 Next Boot
        NUM_OF_VFS              %s
        SRIOV_EN                %s
`

func TestMellanox(t *testing.T) {
	for _, tc := range []struct {
		name    string
		n       int
		vfs, on string // "" makes the query fail
		setFail bool
		sets    string
		changed bool
	}{
		{"as it should be", 8, "8", "True(1)", false, "", false},
		{"other number", 8, "16", "True(1)", false, "mstconfig -y -d 0000:3b:00.0 set SRIOV_EN=1 NUM_OF_VFS=8", true},
		{"switched off", 8, "8", "False(0)", false, "mstconfig -y -d 0000:3b:00.0 set SRIOV_EN=1 NUM_OF_VFS=8", true},
		{"no number given means 32", 0, "8", "True(1)", false, "mstconfig -y -d 0000:3b:00.0 set SRIOV_EN=1 NUM_OF_VFS=32", true},
		{"set fails", 8, "16", "True(1)", true, "mstconfig -y -d 0000:3b:00.0 set SRIOV_EN=1 NUM_OF_VFS=8", false},
		{"query fails", 8, "", "", false, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, m, _ := system(t, map[string]string{"bin/bash": ""})
			for _, f := range []string{"0", "1"} {
				m.Write("sys/bus/pci/devices/0000:3b:00."+f+"/vendor", "0x15b3\n")
				m.Write("sys/bus/pci/devices/0000:3b:00."+f+"/class", "0x020000\n")
			}
			m.Write("sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n")
			m.Answer("chroot /newroot /bin/bash -c mstconfig -d", fmt.Sprintf(query, tc.vfs, tc.on), nil)
			if tc.vfs == "" {
				m.Answer("chroot /newroot /bin/bash -c mstconfig -d", "", disktest.Fail("chroot", 127, "not found"))
			}
			if tc.setFail {
				m.Answer("chroot /newroot /bin/bash -c mstconfig -y", "", disktest.Fail("chroot", 1, ""))
			}
			changed, err := c.SetupMellanox(t.Context(), tc.n)
			want := "chroot /newroot /bin/bash -c mstconfig -d 0000:3b:00.0 query"
			if tc.sets != "" {
				want += "|chroot /newroot /bin/bash -c " + tc.sets
			}
			if got := disktestLog(m); err != nil || changed != tc.changed || got != want {
				t.Errorf("SetupMellanox = %v, %v; commands %s", changed, err, got)
			}
		})
	}
}

func TestFirmwareChangedForbidsKexec(t *testing.T) {
	for _, tc := range []struct {
		name, vfs string
		changed   bool
	}{{"unchanged", "8", false}, {"changed", "16", true}} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *config.MachineConfig) {
				c.VirtualFns = 8
				c.Finish = config.FinishKexec
			})
			tree(t, r.root, map[string]string{"boot/grub/grub.cfg": "submenu x {\nmenuentry y {\n linux /vmlinuz root=LABEL=r quiet\n initrd /initrd\n}\n}\n", "boot/vmlinuz": "", "boot/initrd": ""})
			r.m.Write("sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3\n")
			r.m.Write("sys/bus/pci/devices/0000:3b:00.0/class", "0x020000\n")
			r.m.Answer("chroot /newroot /bin/sh -c mstconfig -d", fmt.Sprintf(query, tc.vfs, "True(1)"), nil)
			loader := &kexec{r: r}
			r.opts.Kexec = loader
			r.fresh()
			if err := r.Provision(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.FirmwareChanged() != tc.changed || r.KexecLoaded() == tc.changed {
				t.Errorf("FirmwareChanged = %v, KexecLoaded = %v", r.FirmwareChanged(), r.KexecLoaded())
			}
			if want := "/newroot/boot/vmlinuz /newroot/boot/initrd root=LABEL=r quiet"; !tc.changed && loader.got != want {
				t.Errorf("loaded %q, want %q", loader.got, want)
			}
			if loader.unmounted {
				t.Error("the kernel was loaded after the root was unmounted")
			}
		})
	}
}

// kexec records what is loaded, and whether the root was still mounted.
type kexec struct {
	r         *rig
	got       string
	unmounted bool
}

func (k *kexec) Load(kernel, initrd, commandLine string) error {
	k.got = strings.ReplaceAll(strings.Join([]string{kernel, initrd, commandLine}, " "), k.r.m.Dir, "")
	for _, l := range k.r.m.Log() {
		k.unmounted = k.unmounted || l == "umount /newroot"
	}
	return nil
}
