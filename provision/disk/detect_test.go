package disk_test

import (
	"os"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/disk/disktest"
)

const gib = 1 << 30

// rack gives a machine with one disk of each kind.
func rack(t *testing.T) *disktest.Machine {
	m := disktest.New(t)
	m.AddDisk("sda", 4000*gib, map[string]string{
		"at": "pci0000:00/ata1/host0/target0:0:0/0:0:0:0", "device/model": "BIGDATA 4T  \n", "device/vendor": "ATA     ",
		"device/vpd_pg80": "\x00\x80\x00\x08DATA0001", "device/wwid": "naa.5000c500aaaa0001", "queue/rotational": "1",
	})
	m.AddDisk("sdb", 480*gib, map[string]string{
		"at": "pci0000:00/host1/target1:2:0/1:2:3:0", "device/model": "SSD 480", "device/vendor": "DELL",
		"device/vpd_pg80": "\x00\x80\x00\x04SSD1", "device/wwid": "naa.6000c500aaaa0002123456789abcdef0", "queue/rotational": "0",
	})
	m.AddDisk("nvme0n1", 960*gib, map[string]string{"device/model": "NVMe", "device/serial": "NV1  ", "wwid": "eui.0025385b71b00001", "queue/rotational": "0"})
	m.AddDisk("sdc", 16*gib, map[string]string{"at": "pci0000:00/usb1/1-1/host2/target2:0:0/2:0:0:0", "device/vpd_pg80": "\x00\x80\x00\x04USB1"})
	m.AddDisk("sdd", 16*gib, map[string]string{"removable": "1", "serial": "REM1"})
	m.AddDisk("sr0", gib, map[string]string{"removable": "1"})
	m.AddDisk("mmcblk0boot0", 4<<20, nil)
	m.AddDisk("nvme0c0n1", 960*gib, nil)
	m.Write("sys/block/loop0/size", "9999999")
	m.Write("sys/block/dm-0/size", "9999999")
	return m
}

func TestDisksListsPhysicalOnes(t *testing.T) {
	all, err := rack(t).Manager().Disks()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range all {
		got = append(got, i.Name+":"+i.Serial+":"+i.WWN+":"+i.WWNVendor+":"+i.HCTL)
	}
	want := "nvme0n1:NV1:eui.0025385b71b00001:: sda:DATA0001:0x5000c500aaaa0001::0:0:0:0 sdb:SSD1:0x6000c500aaaa0002:123456789abcdef0:1:2:3:0 sdc:USB1:::2:0:0:0 sdd:REM1:::"
	if strings.Join(got, " ") != want {
		t.Errorf("Disks() =\n%s, want\n%s", strings.Join(got, " "), want)
	}
}

// The whole of hint support is decided here: all kinds of hint, and no largest disk by chance.
func TestDetectDiskByHints(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		name  string
		hints config.DiskHints
		want  string // "" for none
	}{
		{"nothing: the smallest that is fixed", config.DiskHints{}, "/dev/sdb"},
		{"name", config.DiskHints{Name: "/dev/sda"}, "/dev/sda"},
		{"link", config.DiskHints{Name: "/dev/disk/by-path/pci-1"}, "/dev/nvme0n1"},
		{"serial", config.DiskHints{Serial: "NV1"}, "/dev/nvme0n1"},
		{"serial in part", config.DiskHints{Serial: "NV"}, ""},
		{"WWN", config.DiskHints{WWN: "0x5000C500AAAA0001"}, "/dev/sda"},
		{"WWN with extension", config.DiskHints{WWNWithExtension: "0x6000c500aaaa0002123456789abcdef0"}, "/dev/sdb"},
		{"WWN vendor extension", config.DiskHints{WWNVendorExtension: "0x123456789abcdef0"}, "/dev/sdb"},
		{"model in part, other case", config.DiskHints{Model: "bigdata"}, "/dev/sda"},
		{"vendor", config.DiskHints{Vendor: "dell"}, "/dev/sdb"},
		{"HCTL", config.DiskHints{HCTL: "1:2:3:0"}, "/dev/sdb"},
		{"least size", config.DiskHints{MinSizeGB: 600}, "/dev/nvme0n1"},
		{"rotational", config.DiskHints{Rotational: &yes}, "/dev/sda"},
		{"not rotational", config.DiskHints{Rotational: &no, MinSizeGB: 600}, "/dev/nvme0n1"},
		{"two hints that disagree", config.DiskHints{Serial: "NV1", Vendor: "dell"}, ""},
		{"removable by serial", config.DiskHints{Serial: "REM1"}, "/dev/sdd"},
		{"removable by size", config.DiskHints{MinSizeGB: 1, Model: "nothing"}, ""},
		{"optical drive", config.DiskHints{Name: "/dev/sr0"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := rack(t)
			m.Write("dev/disk/by-path/.keep", "")
			if err := os.Symlink("../../nvme0n1", m.Dir+"/dev/disk/by-path/pci-1"); err != nil {
				t.Fatal(err)
			}
			i, err := m.Manager().DetectDisk(t.Context(), tc.hints)
			if tc.want == "" {
				if !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "/dev/sda: ") {
					t.Errorf("DetectDisk = %v, %v, want NotFound with a reason for each disk", i, err)
				}
				return
			}
			if err != nil || i.Path != tc.want {
				t.Errorf("DetectDisk = %s, %v, want %s", i.Path, err, tc.want)
			}
		})
	}
}

func TestTheBootMediumIsNeverChosenNorWiped(t *testing.T) {
	m := disktest.New(t)
	file := m.AddDisk("sda", 16*gib, map[string]string{"serial": "STICK"})
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	descriptor := append([]byte("\x01CD001\x01\x00"), make([]byte, 64)...)
	copy(descriptor[40:], disk.BootVolume+"_7                        ")
	if _, err := f.WriteAt(descriptor, 16*2048); err != nil {
		t.Fatal(err)
	}
	mgr := m.Manager()
	if i, err := mgr.DetectDisk(t.Context(), config.DiskHints{Serial: "STICK"}); !errors.Is(err, errors.NotFound) {
		t.Errorf("DetectDisk = %v, %v, want NotFound", i, err)
	}
	all, err := mgr.Disks()
	if err != nil || len(all) != 1 || !all[0].BootMedium {
		t.Fatalf("Disks() = %v, %v", all, err)
	}
	if err := mgr.Wipe(t.Context(), all[0]); !errors.Is(err, errors.NotSupported) {
		t.Errorf("Wipe = %v, want NotSupported", err)
	}
}

func TestAnUnreadableRemovableAttributeCountsAsRemovable(t *testing.T) {
	m := disktest.New(t)
	m.AddDisk("sda", 16*gib, nil)
	if err := os.Remove(m.Dir + "/sys/block/sda/removable"); err != nil {
		t.Fatal(err)
	}
	if i, err := m.Manager().DetectDisk(t.Context(), config.DiskHints{}); !errors.Is(err, errors.NotFound) {
		t.Errorf("DetectDisk = %v, %v, want NotFound", i, err)
	}
}

func TestFindRecorded(t *testing.T) {
	mgr := rack(t).Manager()
	for _, tc := range []struct {
		name string
		id   config.DiskID
		want string
	}{
		{"nothing recorded", config.DiskID{}, ""},
		{"by serial, although the name moved", config.DiskID{Serial: "SSD1", Name: "/dev/sda"}, "/dev/sdb"},
		{"another serial under the same name", config.DiskID{Serial: "OTHER", Name: "/dev/sda"}, ""},
		{"by WWN", config.DiskID{WWN: "0x5000c500aaaa0001"}, "/dev/sda"},
		{"by name, there being nothing better", config.DiskID{Name: "/dev/sdb"}, "/dev/sdb"},
		{"serial right, WWN wrong", config.DiskID{Serial: "SSD1", WWN: "0x1"}, ""},
	} {
		i, err := mgr.FindRecorded(tc.id)
		if i.Path != tc.want || (tc.want == "") != errors.Is(err, errors.NotFound) {
			t.Errorf("%s: FindRecorded = %q, %v, want %q", tc.name, i.Path, err, tc.want)
		}
	}
}

func TestManagerWithoutASeamIsRefused(t *testing.T) {
	full := disktest.New(t).Config()
	for name, edit := range map[string]func(*disk.Config){
		"SysRoot": func(c *disk.Config) { c.SysRoot = "" }, "ProcRoot": func(c *disk.Config) { c.ProcRoot = "" },
		"DevRoot": func(c *disk.Config) { c.DevRoot = "" }, "Commander": func(c *disk.Config) { c.Commander = nil },
		"Devices": func(c *disk.Config) { c.Devices = nil },
	} {
		c := full
		edit(&c)
		if _, err := disk.NewManager(c); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), name) {
			t.Errorf("NewManager without %s = %v, want NotValid", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		disk string
		n    int
		want string
	}{
		{"/dev/sda", 1, "/dev/sda1"}, {"/dev/sda", 15, "/dev/sda15"}, {"/dev/nvme0n1", 2, "/dev/nvme0n1p2"},
		{"/dev/vda", 3, "/dev/vda3"}, {"/dev/mmcblk0", 1, "/dev/mmcblk0p1"}, {"/dev/md127", 1, "/dev/md127p1"},
		{"/dev/disk/by-id/ata-X1", 2, "/dev/disk/by-id/ata-X1-part2"},
	} {
		got := disk.PartitionPath(tc.disk, tc.n)
		if got != tc.want || disk.PartitionNumber(got, tc.disk) != tc.n {
			t.Errorf("PartitionPath(%s, %d) = %s, number %d", tc.disk, tc.n, got, disk.PartitionNumber(got, tc.disk))
		}
	}
	for _, tc := range [][2]string{{"/dev/sd", "/dev/sda"}, {"", "/dev/sda"}, {"/dev/sda", "/dev/sda"}, {"/dev/sdb1", "/dev/sda"}, {"/dev/sda1x", "/dev/sda"}, {"/dev/nvme0n12", "/dev/nvme0n1"}, {"/dev/sdaa", "/dev/sda"}, {"/dev/sda+1", "/dev/sda"}} {
		if n := disk.PartitionNumber(tc[0], tc[1]); n != 0 {
			t.Errorf("PartitionNumber(%q, %q) = %d, want 0", tc[0], tc[1], n)
		}
	}
}
