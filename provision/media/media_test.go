package media_test

import (
	"bytes"
	"compress/gzip"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
)

// list reads a newc archive and prints it; it fails the test unless the archive is whole.
func list(t *testing.T, b []byte) (string, map[string]string) {
	t.Helper()
	var out []string
	files := map[string]string{}
	for off := 0; ; {
		if off+110 > len(b) || string(b[off:off+6]) != "070701" {
			t.Fatalf("no header at byte %d of %d", off, len(b))
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(b[off+6+8*i:off+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, nameLen := field(1), field(6), field(11)
		name := string(b[off+110 : off+110+nameLen-1])
		data := (off + 110 + nameLen + 3) / 4 * 4
		if name == "TRAILER!!!" {
			return strings.Join(out, "\n"), files
		}
		files[name] = string(b[data : data+size])
		out = append(out, fmt.Sprintf("%06o %s %d", mode, name, size))
		off = (data + size + 3) / 4 * 4
	}
}

func TestArchive(t *testing.T) {
	var a media.Archive
	a.File("/bin/tool", 0o755, []byte("12345"))
	a.Link("/bin/sh", "tool")
	a.File("../../climbs", 0o644, nil)
	a.Dir("dev")
	a.Char("/dev/console", 0o600, 5, 1)
	var out bytes.Buffer
	n, err := a.WriteTo(&out)
	if err != nil || n != int64(out.Len()) || n%4 != 0 {
		t.Fatalf("WriteTo = %d, %v of %d bytes", n, err, out.Len())
	}
	got, files := list(t, out.Bytes())
	want := "040755 bin 0\n120777 bin/sh 4\n100755 bin/tool 5\n100644 climbs 0\n040755 dev 0\n020600 dev/console 0"
	if got != want || files["bin/tool"] != "12345" {
		t.Errorf("archive:\n%s\nwant:\n%s", got, want)
	}
}

// tree makes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestInitrdHasWhatMachinesNeed(t *testing.T) {
	dir := tree(t, map[string]string{
		"init": "#!program", "busybox": "b", "m/modules.dep": "kernel/drivers/net/ethernet/e1000.ko:\nkernel/fs/fat/vfat.ko: kernel/fs/fat/fat.ko\nkernel/fs/fat/fat.ko:\nkernel/sound/snd.ko:\n",
		"m/modules.alias": "alias pci:v1 e1000\nalias pci:v2 snd\n", "m/kernel/drivers/net/ethernet/e1000.ko": "E", "m/kernel/fs/fat/vfat.ko": "V", "m/kernel/fs/fat/fat.ko": "F", "m/kernel/sound/snd.ko": "S",
	})
	b, err := media.Initrd(media.Config{Installer: dir + "/init", Programs: []string{dir + "/busybox"}, Modules: dir + "/m"})
	if err != nil {
		t.Fatal(err)
	}
	rest := bytes.NewReader(b)
	z, err := gzip.NewReader(rest)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	raw, err := io.ReadAll(z) // to its very end: a kernel refuses one cut short
	if err != nil {
		t.Fatal(err)
	}
	all, files := list(t, raw)
	for _, want := range []string{"100755 init 9", "100755 bin/busybox 1", "120777 bin/sh 7", "020600 dev/console 0", "040755 newroot 0", "100644 modules/kernel/drivers/net/ethernet/e1000.ko 1", "100644 modules/kernel/fs/fat/fat.ko 1"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if strings.Contains(all, "snd") || files["modules/modules.alias"] != "alias pci:v1 e1000\n" || files["modules/always"] != "kernel/fs/fat/vfat.ko\n" {
		t.Errorf("tables: %q %q", files["modules/modules.alias"], files["modules/always"])
	}
	if len(b)%4 != 0 || len(b)-rest.Len() <= 0 {
		t.Errorf("%d bytes, %d left: want room for a boot file, on four bytes", len(b), rest.Len())
	}
	last, err := io.ReadAll(rest)
	if err != nil {
		t.Fatal(err)
	}
	if room, files := list(t, bytes.TrimLeft(last, "\x00")); room != "100600 slipway.json 65536" || strings.TrimSpace(files["slipway.json"]) != "" {
		t.Errorf("room for a boot file: %s", room)
	}
	if _, err := media.Initrd(media.Config{Installer: dir + "/none"}); err == nil {
		t.Error("Initrd without an installer succeeded")
	}
}

// stub is the least PE32+ file that UKI takes: one section.
func stub() []byte {
	b := make([]byte, 0x600)
	le := binary.LittleEndian
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 0x80)
	copy(b[0x80:], "PE\x00\x00\x64\x86")
	le.PutUint16(b[0x86:], 1)
	le.PutUint16(b[0x94:], 240)
	opt := b[0x98:]
	le.PutUint16(opt, 0x20b)
	le.PutUint32(opt[32:], 0x1000)
	le.PutUint32(opt[36:], 0x200)
	le.PutUint32(opt[56:], 0x2000)
	le.PutUint32(opt[60:], 0x400)
	le.PutUint32(opt[108:], 16)
	s := b[0x98+240:]
	copy(s, ".text")
	le.PutUint32(s[8:], 0x123)
	le.PutUint32(s[12:], 0x1000)
	le.PutUint32(s[16:], 0x200)
	le.PutUint32(s[20:], 0x400)
	return b
}

func TestUKI(t *testing.T) {
	out, err := media.UKI(stub(), []byte("KERNEL"), bytes.Repeat([]byte("i"), 5000), "console=x")
	if err != nil {
		t.Fatal(err)
	}
	f, err := pe.NewFile(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	var end uint32
	got := map[string]string{}
	for _, s := range f.Sections {
		if s.VirtualAddress < end || s.VirtualAddress%0x1000 != 0 {
			t.Errorf("section %s at %#x, before %#x", s.Name, s.VirtualAddress, end)
		}
		end = s.VirtualAddress + s.VirtualSize
		b, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		got[s.Name] = string(b[:s.VirtualSize])
	}
	if got[".linux"] != "KERNEL" || got[".cmdline"] != "console=x\x00" || len(got[".initrd"]) != 5000 || !strings.Contains(got[".osrel"], "slipway") {
		t.Errorf("sections: %.60q", got)
	}
	if h, ok := f.OptionalHeader.(*pe.OptionalHeader64); !ok || h.SizeOfImage < end {
		t.Error("the image's size does not cover its sections")
	}
	if _, err := media.UKI([]byte("MZ no program"), nil, nil, ""); !errors.Is(err, errors.NotValid) {
		t.Errorf("UKI of nonsense = %v, want NotValid", err)
	}
}

// A program that stands in for the signer marks the file that it is given.
func TestBuildSignsTheProgram(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sbsign": "#!/bin/sh\n[ \"$1 $2 $3 $4 $5 $6\" = \"--key K --cert C --output $7\" ] || { echo warning: gap in section table:; echo .a: 1, gaps in the table may; echo no such; echo key; exit 1; }\nprintf MARK-OF-THE-SIGNER >> \"$7\"\n",
		"kernel": "KERNEL", "stub": string(stub()), "init": "INIT",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := media.Config{Kernel: filepath.Join(dir, "kernel"), Stub: filepath.Join(dir, "stub"), Installer: filepath.Join(dir, "init"), Arch: "amd64", SignKey: "K", SignCert: "C"}
	t.Setenv("PATH", dir)
	o, err := media.Build(c, filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{o.EFI, o.ESP, o.ISO} {
		if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("MARK-OF-THE-SIGNER")) {
			t.Errorf("%s is not signed, %v", file, err)
		}
	}
	before, err := os.ReadFile(o.EFI)
	if err != nil {
		t.Fatal(err)
	}
	c.SignKey, c.CommandLine = "another", "panic=1"
	if _, err := media.Build(c, filepath.Join(dir, "out")); err == nil || !strings.HasSuffix(err.Error(), "exit status 1: no such key") {
		t.Errorf("Build with a key that the signer refuses: %v", err)
	}
	if after, err := os.ReadFile(o.EFI); err != nil || !bytes.Equal(after, before) {
		t.Errorf("what was there is another after a failure, %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "out")); err != nil || len(left) != 5 {
		t.Errorf("%v are left, %v", left, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := media.Build(c, filepath.Join(dir, "out")); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "sbsigntool") {
		t.Errorf("Build without a signer: %v", err)
	}
	c.Arch = "mips"
	if _, err := media.Build(c, filepath.Join(dir, "none")); !errors.Is(err, errors.NotSupported) {
		t.Errorf("Build for another architecture: %v", err)
	}
	if err := media.WriteISO(dir, o.ESP, nil); !errors.Is(err, errors.NotValid) {
		t.Errorf("WriteISO to a folder: %v", err)
	}
}

func boot() *config.Boot {
	return &config.Boot{Server: "https://192.0.2.1/installer", CA: "pem", Host: "host-7", Number: 3, Token: "planted"}
}

func TestMediumRoundTrip(t *testing.T) {
	dir := t.TempDir()
	esp, iso := filepath.Join(dir, "efi.img"), filepath.Join(dir, "x.iso")
	program := bytes.Repeat([]byte("program "), 1<<17)
	if err := media.WriteESP(esp, program, "amd64"); err != nil {
		t.Fatal(err)
	}
	if err := media.WriteISO(iso, esp, boot()); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(iso)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("medium has mode %v, %v; it holds a token", st.Mode(), err)
	}
	f, err := os.Open(iso)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got, err := media.ReadBoot(f)
	if err != nil || got.Host != "host-7" || got.Number != 3 || got.Token != "planted" {
		t.Errorf("ReadBoot = %v, %v", got, err)
	}
	if err := media.WriteISO(iso, esp, nil); err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(iso)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	if _, err := media.ReadBoot(g); !errors.Is(err, errors.NotFound) {
		t.Errorf("ReadBoot of a medium without a host = %v, want NotFound", err)
	}
	if err := media.WriteISO(iso, esp, &config.Boot{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("WriteISO with an empty boot file = %v, want NotValid", err)
	}
	if err := media.WriteESP(esp, program, "riscv64"); !errors.Is(err, errors.NotSupported) {
		t.Errorf("WriteESP for riscv64 = %v, want NotSupported", err)
	}
}

func TestReadBootOfOtherThings(t *testing.T) {
	for name, b := range map[string][]byte{"nothing": nil, "zeros": make([]byte, 1<<20), "another medium": medium("OTHER", nil)} {
		if _, err := media.ReadBoot(bytes.NewReader(b)); !errors.Is(err, errors.NotFound) {
			t.Errorf("%s: ReadBoot = %v, want NotFound", name, err)
		}
	}
}

// medium makes a volume whose root folder is at block 18.
func medium(volume string, folder []byte) []byte {
	b := make([]byte, 20*2048)
	pvd := b[16*2048:]
	pvd[0] = 1
	copy(pvd[1:], "CD001")
	copy(pvd[40:], volume)
	binary.LittleEndian.PutUint32(pvd[158:], 18)
	binary.LittleEndian.PutUint32(pvd[166:], 2048)
	copy(b[18*2048:], folder)
	return b
}

func FuzzReadBoot(f *testing.F) {
	rec := make([]byte, 34+15)
	rec[0] = byte(len(rec))
	binary.LittleEndian.PutUint32(rec[2:], 19)
	binary.LittleEndian.PutUint32(rec[10:], 20)
	rec[32] = 14
	copy(rec[33:], "SLIPWAY.JSON;1")
	f.Add(rec, []byte(`{"server":"https://x","host":"h","token":"t"}`))
	f.Fuzz(func(t *testing.T, folder, file []byte) {
		b := medium("SLIPWAY", folder[:min(len(folder), 2048)])
		copy(b[19*2048:], file)
		boot, err := media.ReadBoot(bytes.NewReader(b))
		if err == nil && boot.Validate() != nil {
			t.Errorf("ReadBoot gave what is not valid: %v", boot)
		}
	})
}
