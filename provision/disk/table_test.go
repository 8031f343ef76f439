package disk_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/disk/disktest"
)

// sectors is a disk in memory.
type sectors []byte

func (s sectors) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(s).ReadAt(p, at)
}

func (s sectors) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > int64(len(s)) {
		return 0, io.ErrShortWrite
	}
	return copy(s[at:], p), nil
}

// seeded gives the same GUIDs each time.
func seeded() io.Reader { return rand.NewChaCha8([32]byte{1}) }

var twoParts = []config.Partition{
	{Label: "efi", SizeMiB: 16, FileSystem: "vfat", MountPoint: "/boot/efi"},
	{Label: "rööt", SizeMiB: 32, FileSystem: "ext4", MountPoint: "/"},
}

// newGPT returns a disk of mib MiB with twoParts.
func newGPT(t testing.TB, mib, sector int64) sectors {
	t.Helper()
	s := make(sectors, mib<<20)
	table, err := disk.NewTable(twoParts, int64(len(s)), sector, seeded())
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Write(s, int64(len(s))); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGPTRoundTrip(t *testing.T) {
	for _, sector := range []int64{512, 4096} {
		s := newGPT(t, 64, sector)
		table, err := disk.ReadTable(s, int64(len(s)))
		if err != nil {
			t.Fatal(err)
		}
		if table.Kind != disk.GPT || table.SectorSize != sector || len(table.Partitions) != 2 || table.Damaged {
			t.Fatalf("ReadTable = %+v", table)
		}
		p := table.Partitions[1]
		if p.Number != 2 || p.Start != 17<<20 || p.Size != 32<<20 || p.Name != "rööt" || p.Type != disk.TypeLinux {
			t.Errorf("partition 2 = %+v", p)
		}
		if esp, ok := table.FindESP(); !ok || esp.Number != 1 {
			t.Errorf("FindESP = %+v, %v", esp, ok)
		}
	}
}

func TestADamagedPrimaryIsReadFromTheBackup(t *testing.T) {
	s := newGPT(t, 64, 512)
	s[512+60]++
	table, err := disk.ReadTable(s, int64(len(s)))
	if err != nil || !table.Damaged || len(table.Partitions) != 2 {
		t.Errorf("ReadTable = %+v, %v, want the backup", table, err)
	}
	s[len(s)-512+60]++
	if _, err := disk.ReadTable(s, int64(len(s))); !errors.Is(err, errors.NotValid) {
		t.Errorf("both damaged: ReadTable = %v, want NotValid", err)
	}
}

func TestGrow(t *testing.T) {
	small := newGPT(t, 64, 512)
	s := make(sectors, 256<<20)
	copy(s, small)
	table, err := disk.ReadTable(s, int64(len(s)))
	if err != nil {
		t.Fatal(err)
	}
	grew, err := table.Grow(s, 2, int64(len(s)))
	if err != nil || !grew {
		t.Fatalf("Grow = %v, %v", grew, err)
	}
	s[512+60]++ // only the moved backup can be right now
	table, err = disk.ReadTable(s, int64(len(s)))
	if err != nil || !table.Damaged {
		t.Fatalf("ReadTable of the backup = %+v, %v", table, err)
	}
	if p := table.Partitions[1]; p.Size != (255-17)<<20 || p.Start != 17<<20 {
		t.Errorf("partition 2 = %+v, want it to end a MiB before the end", p)
	}
	if grew, err := table.Grow(s, 2, int64(len(s))); err != nil || grew {
		t.Errorf("second Grow = %v, %v, want false", grew, err)
	}
	if grew, err := table.Grow(s, 1, int64(len(s))); err != nil || grew {
		t.Errorf("Grow of a partition with another behind it = %v, %v, want false", grew, err)
	}
	if _, err := table.Grow(s, 7, int64(len(s))); !errors.Is(err, errors.NotFound) {
		t.Errorf("Grow(7) = %v, want NotFound", err)
	}
}

// mbr returns a disk with one primary (type 83) and two logical partitions.
func mbr() sectors {
	s := make(sectors, 64<<20)
	entry := func(at int64, slot int, typ byte, start, length uint32) {
		e := s[at+446+int64(slot)*16:]
		e[4] = typ
		for i := range 4 {
			e[8+i], e[12+i] = byte(start>>(8*i)), byte(length>>(8*i))
		}
		s[at+510], s[at+511] = 0x55, 0xaa
	}
	entry(0, 0, 0x83, 2048, 2048)
	entry(0, 1, 0x05, 8192, 20000)
	entry(8192*512, 0, 0x83, 63, 1000)
	entry(8192*512, 1, 0x05, 2000, 1000)
	entry(10192*512, 0, 0x82, 63, 500)
	return s
}

func TestMBR(t *testing.T) {
	s := mbr()
	table, err := disk.ReadTable(s, int64(len(s)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range table.Partitions {
		got = append(got, disk.PartitionPath("/dev/sda", p.Number)+"="+p.Type)
	}
	if table.Kind != disk.MBR || strings.Join(got, " ") != "/dev/sda1=83 /dev/sda5=83 /dev/sda6=82" {
		t.Errorf("ReadTable = %s %v", table.Kind, got)
	}
	copy(s[446+16:], make([]byte, 16)) // without the extended one the first is the last
	if table, err = disk.ReadTable(s, int64(len(s))); err != nil {
		t.Fatal(err)
	}
	if grew, err := table.Grow(s, 1, int64(len(s))); err != nil || !grew {
		t.Fatalf("Grow = %v, %v", grew, err)
	}
	table, err = disk.ReadTable(s, int64(len(s)))
	if err != nil || table.Partitions[0].Size != 63<<20 {
		t.Errorf("after Grow: %+v, %v", table, err)
	}
}

func TestALoopOfLogicalPartitionsEnds(t *testing.T) {
	s := mbr()
	e := s[10192*512+446+16:] // the second points at itself
	e[4], e[8], e[9], e[12] = 0x05, 0xd0, 0x07, 1
	if _, err := disk.ReadTable(s, int64(len(s))); !errors.Is(err, errors.NotValid) {
		t.Errorf("ReadTable = %v, want NotValid", err)
	}
}

func TestNoTable(t *testing.T) {
	for _, s := range []sectors{make(sectors, 1<<20), make(sectors, 100)} {
		table, err := disk.ReadTable(s, int64(len(s)))
		if err != nil || table.Kind != "" || len(table.Partitions) != 0 {
			t.Errorf("ReadTable of zeros = %+v, %v", table, err)
		}
	}
}

func TestLayoutBeyondTheDiskIsRefused(t *testing.T) {
	for _, parts := range [][]config.Partition{
		{{Label: "a", SizeMiB: 100}},
		{{Label: "a", SizeMiB: 62}, {Label: "b"}},
		{{Label: "a", SizeMiB: 1 << 60}},
	} {
		if _, err := disk.NewTable(parts, 64<<20, 512, seeded()); !errors.Is(err, errors.NotValid) {
			t.Errorf("NewTable(%v) = %v, want NotValid", parts, err)
		}
	}
}

func TestFindRoot(t *testing.T) {
	part := func(n int, typ, name, fs, label string, size int64) disk.Part {
		return disk.Part{Entry: disk.Entry{Number: n, Type: typ, Name: name, Size: size}, Node: disk.PartitionPath("/dev/sda", n), Content: disk.Content{Type: fs, Label: label}}
	}
	for _, tc := range []struct {
		name  string
		parts []disk.Part
		want  int
	}{
		{"by type for this architecture", []disk.Part{part(1, disk.TypeLinux, "root", "ext4", "", 9), part(2, disk.TypeRootAMD64, "", "xfs", "", 3)}, 2},
		{"type of another architecture is no more than Linux", []disk.Part{part(1, disk.TypeRootARM64, "", "ext4", "", 3), part(2, disk.TypeLinux, "", "ext4", "", 9)}, 2},
		{"by name", []disk.Part{part(1, disk.TypeLinux, "root", "ext4", "", 3), part(2, disk.TypeLinux, "home", "ext4", "", 9)}, 1},
		{"by label of a cloud image", []disk.Part{part(1, disk.TypeLinux, "", "ext4", "cloudimg-rootfs", 3), part(16, disk.TypeXBOOTLDR, "", "ext4", "BOOT", 1)}, 1},
		{"the largest, not the last", []disk.Part{part(1, disk.TypeLinux, "", "xfs", "", 9), part(2, disk.TypeLinux, "", "ext4", "", 1)}, 1},
		{"never a boot partition if there is another", []disk.Part{part(1, disk.TypeXBOOTLDR, "", "ext4", "", 9), part(2, disk.TypeLinux, "", "ext4", "", 1)}, 2},
		{"MBR", []disk.Part{part(1, "83", "", "ext3", "", 9)}, 1},
		{"a partition without a file system is none", []disk.Part{part(1, disk.TypeLinux, "root", "", "", 9), part(2, disk.TypeLinux, "", "btrfs", "", 1)}, 2},
	} {
		got, err := disk.FindRoot(tc.parts, "amd64")
		if err != nil || got.Number != tc.want {
			t.Errorf("%s: FindRoot = %d, %v, want %d", tc.name, got.Number, err, tc.want)
		}
	}
	if _, err := disk.FindRoot([]disk.Part{part(1, disk.TypeESP, "", "vfat", "", 1)}, "amd64"); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "/dev/sda1") {
		t.Errorf("FindRoot without a root = %v, want NotFound naming what was seen", err)
	}
}

func TestWipe(t *testing.T) {
	m := disktest.New(t)
	file := m.AddDisk("sda", 64<<20, nil)
	content := newGPT(t, 64, 512)
	for _, at := range []int{17 << 20, 49<<20 - 100, 30 << 20} {
		copy(content[at:], "remains")
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	mgr := m.Manager()
	all, err := mgr.Disks()
	if err != nil {
		t.Fatal(err)
	}
	if err := mgr.Wipe(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{512, len(got) - 512, 17 << 20, 49<<20 - 100} {
		if got[at] != 0 {
			t.Errorf("byte %d is not wiped", at)
		}
	}
	if string(got[30<<20:30<<20+7]) != "remains" {
		t.Error("a quick wipe wrote to the middle of a partition")
	}
}

func TestADiskInUseIsNotWiped(t *testing.T) {
	for name, file := range map[string]string{"mounts": "/dev/sda2 /mnt ext4 rw 0 0\n", "swaps": "Filename Type\n/dev/sda3 partition\n"} {
		m := disktest.New(t)
		m.AddDisk("sda", gib, nil)
		m.Write("proc/"+name, file)
		mgr := m.Manager()
		all, err := mgr.Disks()
		if err != nil {
			t.Fatal(err)
		}
		if err := mgr.Wipe(t.Context(), all[0]); !errors.Is(err, errors.NotSupported) {
			t.Errorf("%s: Wipe = %v, want NotSupported", name, err)
		}
		if log := m.Log(); len(log) != 0 {
			t.Errorf("%s: Wipe did %v", name, log)
		}
	}
}

const hdparmReady = "\nATA device\nSecurity: \n\tMaster password revision code = 65534\n\t\tsupported\n\tnot\tenabled\n\tnot\tlocked\n\tnot\tfrozen\n\tnot\texpired: security count\n\t\tsupported: enhanced erase\nLogical Unit WWN: x\n"

func TestSecureErase(t *testing.T) {
	for _, tc := range []struct {
		name, disk, hdparm string
		fail               string
		want               []string
		kind               error
	}{
		{name: "NVMe", disk: "nvme0n1", want: []string{"nvme format /dev/nvme0n1 --ses=1 --force"}},
		{name: "ATA that is not frozen", disk: "sda", hdparm: hdparmReady, want: []string{"hdparm -I /dev/sda",
			"hdparm --user-master u --security-set-pass slipway /dev/sda", "hdparm --user-master u --security-erase slipway /dev/sda"}},
		{name: "ATA left locked by a cut", disk: "sda", hdparm: strings.Replace(hdparmReady, "not\tenabled", "\tenabled", 1), want: []string{"hdparm -I /dev/sda", "hdparm --user-master u --security-erase slipway /dev/sda"}},
		{name: "frozen", disk: "sda", hdparm: strings.Replace(hdparmReady, "not\tfrozen", "\tfrozen", 1), want: []string{"hdparm -I /dev/sda"}, kind: errors.NotSupported},
		{name: "no security", disk: "sda", hdparm: "ATA device\n", want: []string{"hdparm -I /dev/sda"}, kind: errors.NotSupported},
		{name: "erase fails: the password is cleared", disk: "sda", hdparm: hdparmReady, fail: "hdparm --user-master u --security-erase", want: []string{"hdparm -I /dev/sda",
			"hdparm --user-master u --security-set-pass slipway /dev/sda", "hdparm --user-master u --security-erase slipway /dev/sda", "hdparm --user-master u --security-disable slipway /dev/sda"}, kind: errSome},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := disktest.New(t)
			m.AddDisk(tc.disk, gib, nil)
			m.Answer("hdparm -I", tc.hdparm, nil)
			if tc.fail != "" {
				m.Answer(tc.fail, "", errSome)
			}
			mgr := m.Manager()
			all, err := mgr.Disks()
			if err != nil {
				t.Fatal(err)
			}
			err = mgr.SecureErase(t.Context(), all[0])
			if (tc.kind == nil) != (err == nil) || tc.kind != nil && !errors.Is(err, tc.kind) {
				t.Errorf("SecureErase = %v, want %v", err, tc.kind)
			}
			if got := strings.Join(m.Log(), "\n"); got != strings.Join(tc.want, "\n") {
				t.Errorf("commands:\n%s\nwant:\n%s", got, strings.Join(tc.want, "\n"))
			}
		})
	}
}

const errSome = errors.ConstError("some error")

func TestStopRAID(t *testing.T) {
	for _, tc := range []struct {
		name, mdstat, output string
		runs, fails          bool
	}{
		{name: "no driver"},
		{name: "no array", mdstat: "Personalities : \nunused devices: <none>\n"},
		{name: "an array", mdstat: "Personalities : [raid1]\nmd127 : active raid1 sda1[0]\n", runs: true},
		{name: "gone meanwhile", mdstat: "P\nmd0 : active\n", runs: true, output: "mdadm: No arrays found in config file or automatically"},
		{name: "stop fails", mdstat: "P\nmd0 : active\n", runs: true, output: "device busy", fails: true},
	} {
		m := disktest.New(t)
		if tc.mdstat != "" {
			m.Write("proc/mdstat", tc.mdstat)
		}
		if tc.output != "" {
			m.Answer("mdadm", "", disktest.Fail("mdadm", 1, tc.output))
		}
		err := m.Manager().StopRAID(t.Context())
		if ran := len(m.Log()) > 0; ran != tc.runs || (err != nil) != tc.fails {
			t.Errorf("%s: StopRAID = %v, ran %v", tc.name, err, ran)
		}
	}
}

func TestCheckAndResize(t *testing.T) {
	for _, tc := range []struct {
		fs    string
		code  int
		fails bool
		want  string
	}{
		{"ext4", 0, false, "e2fsck -fy /dev/sda2"}, {"ext4", 1, false, "e2fsck -fy /dev/sda2"}, {"ext3", 3, false, "e2fsck -fy /dev/sda2"},
		{"ext4", 4, true, "e2fsck -fy /dev/sda2"}, {"ext4", 8, true, "e2fsck -fy /dev/sda2"},
		{"xfs", 1, true, "xfs_repair -n /dev/sda2"}, {"btrfs", 1, true, "btrfs check --readonly /dev/sda2"}, {"vfat", 0, false, ""},
	} {
		m := disktest.New(t)
		if tc.code > 0 {
			name, _, _ := strings.Cut(tc.want, " ")
			m.Answer(name, "", disktest.Fail(name, tc.code, "x"))
		}
		err := m.Manager().CheckFilesystem(t.Context(), "/dev/sda2", tc.fs)
		if got := strings.Join(m.Log(), ";"); got != tc.want || (err != nil) != tc.fails {
			t.Errorf("%s code %d: %q, %v, want %q", tc.fs, tc.code, got, err, tc.want)
		}
	}
	for fs, want := range map[string]string{
		"ext4": "resize2fs /dev/sda2", "xfs": "xfs_growfs /newroot", "btrfs": "btrfs filesystem resize max /newroot", "swap": "",
	} {
		m := disktest.New(t)
		if err := m.Manager().ResizeFilesystem(t.Context(), "/dev/sda2", fs, "/newroot"); err != nil || strings.Join(m.Log(), ";") != want {
			t.Errorf("ResizeFilesystem(%s) = %v, want %q", fs, err, want)
		}
	}
	m := disktest.New(t)
	m.Answer("xfs_growfs", "", errors.NotFoundf("program"))
	if err := m.Manager().ResizeFilesystem(t.Context(), "/dev/sda2", "xfs", "/newroot"); err != nil || strings.Join(m.Log(), ";") != "xfs_growfs /newroot;chroot /newroot xfs_growfs /" {
		t.Errorf("xfs without the program: %v", err)
	}
}

func TestApplyLayoutWithLVM(t *testing.T) {
	m := disktest.New(t)
	m.AddDisk("sda", 4*gib, nil)
	parts, err := m.Manager().ApplyLayout(t.Context(), "/dev/sda", &config.Layout{
		Partitions: []config.Partition{{Label: "efi", SizeMiB: 512, FileSystem: "vfat", MountPoint: "/boot/efi"}, {Label: "pv"}},
		LVM: &config.LVM{VolumeGroup: "vg0", Partition: 2, Volumes: []config.Volume{
			{Name: "swap", SizeMiB: 1024, FileSystem: "swap"}, {Name: "root", FileSystem: "ext4", MountPoint: "/"}}},
	}, seeded())
	if err != nil {
		t.Fatal(err)
	}
	want := `open /dev/sda to write
reread /dev/sda
mkfs.vfat -F 32 -n efi /dev/sda1
lvm pvcreate -ff -y /dev/sda2
lvm vgcreate -y vg0 /dev/sda2
lvm lvcreate -y -W y -L 1024m -n swap vg0
mkswap -L swap /dev/vg0/swap
lvm lvcreate -y -W y -l 100%FREE -n root vg0`
	if got := strings.Join(m.Log(), "\n"); got != want {
		t.Errorf("commands:\n%s\nwant:\n%s", got, want)
	}
	if len(parts) != 4 || parts[3].Node != "/dev/vg0/root" || parts[1].Type != disk.TypeLVM {
		t.Errorf("parts = %+v", parts)
	}
}

func TestSetupNamespaces(t *testing.T) {
	m := disktest.New(t)
	m.AddDisk("nvme0n1", gib, nil)
	m.Write("dev/nvme0n5", "")
	m.Answer("nvme id-ctrl", `{"cntlid":1,"tnvmcap":1000000000000}`, nil)
	m.Answer("nvme create-ns", "create-ns: Success, created nsid:5\n", nil)
	first, err := m.Manager().SetupNamespaces(t.Context(), config.NVMeCtrl{Controller: "/dev/nvme0", Namespaces: []config.NVMeNamespace{{Label: "root", Percent: 10, BlockSize: 4096}}})
	if err != nil || first != "/dev/nvme0n5" {
		t.Fatalf("SetupNamespaces = %q, %v", first, err)
	}
	want := "nvme id-ctrl /dev/nvme0 --output-format=json;nvme delete-ns /dev/nvme0 --namespace-id=0xffffffff;" +
		"nvme create-ns /dev/nvme0 --nsze=24414062 --ncap=24414062 --block-size=4096;nvme attach-ns /dev/nvme0 --namespace-id=5 --controllers=0x1;nvme ns-rescan /dev/nvme0"
	if got := strings.Join(m.Log(), ";"); got != want {
		t.Errorf("commands = %s", got)
	}
	m.Write("proc/mounts", "/dev/nvme0n1p1 / ext4 rw 0 0\n")
	if _, err := m.Manager().SetupNamespaces(t.Context(), config.NVMeCtrl{Controller: "/dev/nvme0"}); !errors.Is(err, errors.NotSupported) || len(m.Log()) != 0 {
		t.Errorf("namespaces of a disk in use: %v, want NotSupported and no command", err)
	}
}

// sparse is a large disk of which only the beginning is kept.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > s.size {
		return 0, io.EOF
	}
	clear(p)
	if at < int64(len(s.head)) {
		copy(p, s.head[at:])
	}
	return len(p), nil
}

func (s sparse) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > s.size {
		return 0, io.ErrShortWrite
	}
	if at < int64(len(s.head)) {
		copy(s.head[at:], p)
	}
	return len(p), nil
}

func FuzzReadTable(f *testing.F) {
	f.Add([]byte(newGPT(f, 64, 512)[:2048]), uint32(64<<20))
	f.Add([]byte(newGPT(f, 64, 4096)[:8704]), uint32(64<<20))
	f.Add([]byte(mbr()[:512]), uint32(64<<20))
	f.Fuzz(func(t *testing.T, head []byte, size uint32) {
		n := int64(size)
		s := sparse{append(head, make([]byte, 24<<10)...), n}
		table, err := disk.ReadTable(s, n)
		if err != nil {
			return
		}
		for _, p := range table.Partitions {
			if p.Start <= 0 || p.Size <= 0 || p.Start+p.Size > n || p.Number < 1 {
				t.Errorf("partition outside the disk of %d bytes: %+v", n, p)
			}
			disk.Probe(io.NewSectionReader(s, p.Start, p.Size))
		}
		if len(table.Partitions) == 0 {
			return
		}
		p := table.Partitions[0]
		if grew, err := table.Grow(s, p.Number, n); err != nil || !grew {
			return
		}
		again, err := disk.ReadTable(s, n)
		if err != nil || again.Partitions[0].Size <= p.Size {
			t.Errorf("the table that Grow wrote cannot be read: %+v, %v", again, err)
		}
	})
}
