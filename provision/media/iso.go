package media

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
)

const (
	// BootFile is the name of a host's config.Boot in the root folder of a medium and of
	// an initramfs.
	BootFile = "slipway.json"
	// espFile is the EFI system partition's image on a medium.
	espFile = "efi.img"
	// isoBlock is the block of an ISO 9660 file system.
	isoBlock = 2048
	// maxBootFile bounds what is read of a medium's boot file, in bytes.
	maxBootFile = 1 << 20
	// maxFolder bounds the root folder of a medium, in bytes.
	maxFolder = 1 << 20
)

// loaderOf names the program that firmware of an architecture starts. The error satisfies
// errors.NotSupported for others.
func loaderOf(arch string) (string, error) {
	name, ok := map[string]string{"amd64": "BOOTX64.EFI", "arm64": "BOOTAA64.EFI"}[arch]
	if !ok {
		return "", errors.NotSupportedf("EFI boot on %q (amd64 and arm64 are)", arch)
	}
	return name, nil
}

// WriteESP writes at path a FAT32 file system that starts program on machines of arch
// (as Go names it). It is the same for all hosts.
func WriteESP(path string, program []byte, arch string) error {
	name, err := loaderOf(arch)
	if err != nil {
		return err
	}
	size := (int64(len(program))+(40<<20))>>20<<20 + 1<<20 // a FAT32 has 33 MiB at least
	b, err := file.CreateFromPath(path, size)
	if err != nil {
		return errors.Annotate(err, "cannot create EFI image")
	}
	defer func() { _ = b.Close() }()
	fs, err := fat32.Create(b, size, 0, 512, "SLIPWAY", true)
	if err != nil {
		return errors.Annotate(err, "cannot make file system of EFI image")
	}
	for _, dir := range []string{"/EFI", "/EFI/BOOT"} {
		if err := fs.Mkdir(dir); err != nil {
			return errors.Annotate(err, "cannot fill EFI image")
		}
	}
	f, err := fs.OpenFile("/EFI/BOOT/"+name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return errors.Annotate(err, "cannot fill EFI image")
	}
	if _, err := f.Write(program); err != nil {
		return errors.Annotate(err, "cannot fill EFI image")
	}
	return errors.Annotate(f.Close(), "cannot fill EFI image")
}

// WriteISO writes at path a medium that starts the program in the EFI image esp, with a
// host's boot file unless boot is nil. The file holds the host's token: it is made for
// its owner alone. A file at path is replaced once the medium is whole.
func WriteISO(path, esp string, boot *config.Boot) error {
	if boot == nil {
		return writeISO(path, esp, nil)
	}
	if err := boot.Validate(); err != nil {
		return errors.Annotate(err, "cannot use boot file")
	}
	b, err := json.Marshal(boot)
	if err != nil {
		return errors.Annotate(err, "cannot encode boot file")
	}
	return writeISO(path, esp, b)
}

// writeISO writes a medium with a boot file of these bytes, or without one.
func writeISO(path, esp string, boot []byte) error {
	work, err := os.MkdirTemp("", "slipway-iso-")
	if err != nil {
		return errors.Annotate(err, "cannot make medium")
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := linkOrCopy(esp, work+"/"+espFile); err != nil {
		return errors.Annotate(err, "cannot read EFI image")
	}
	if boot != nil {
		if err := os.WriteFile(work+"/"+BootFile, boot, 0o600); err != nil {
			return errors.Annotate(err, "cannot make medium")
		}
	}
	st, err := os.Stat(esp)
	if err != nil {
		return errors.Annotate(err, "cannot read EFI image")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.NotValidf("folder %s for a medium", path)
	}
	beside, err := os.MkdirTemp(filepath.Dir(path), ".iso-") // for the owner alone
	if err != nil {
		return errors.Annotatef(err, "cannot create medium %s", path)
	}
	defer func() { _ = os.RemoveAll(beside) }()
	whole := filepath.Join(beside, "medium")
	if err := fillISO(whole, work, st.Size()+8<<20); err != nil {
		return err
	}
	return errors.Annotate(os.Rename(whole, path), "cannot create medium")
}

// fillISO writes at path a medium of size bytes with what is in the folder work.
func fillISO(path, work string, size int64) error {
	b, err := file.CreateFromPath(path, size)
	if err != nil {
		return errors.Annotate(err, "cannot create medium")
	}
	defer func() { _ = b.Close() }()
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Annotate(err, "cannot create medium")
	}
	fs, err := iso9660.Create(b, size, 0, isoBlock, work)
	if err != nil {
		return errors.Annotate(err, "cannot make file system of medium")
	}
	err = fs.Finalize(iso9660.FinalizeOptions{
		VolumeIdentifier: disk.BootVolume,
		ElTorito: &iso9660.ElTorito{BootCatalog: "/BOOT.CAT", Entries: []*iso9660.ElToritoEntry{
			{Platform: iso9660.EFI, Emulation: iso9660.NoEmulation, BootFile: "/" + espFile},
		}},
	})
	return errors.Annotate(err, "cannot write medium")
}

// linkOrCopy makes to the same as from, without a copy where that can be.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

// ReadBoot reads the boot file of a medium. The error satisfies errors.NotFound if r is no
// medium of ours or has no such file. What it reads is bounded and checked: it is
// whatever is in the drive.
func ReadBoot(r io.ReaderAt) (*config.Boot, error) {
	at, size, err := findBoot(r)
	if err != nil {
		return nil, err
	}
	if size == 0 || size > maxBootFile {
		return nil, errors.NotValidf("boot file of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := r.ReadAt(b, at); err != nil {
		return nil, errors.Annotate(err, "cannot read boot file")
	}
	return ParseBoot(b)
}

// ReadProgramBoot reads the boot file inside an installer's EFI program, which a host gets by
// UEFI HTTP boot. The error satisfies errors.NotFound if r is no program of ours, or one with
// an empty boot file. It reads little of it.
func ReadProgramBoot(r io.ReaderAt) (*config.Boot, error) {
	f, err := pe.NewFile(r)
	if err != nil {
		return nil, errors.NotFoundf("installer's program")
	}
	s := f.Section(".initrd")
	room, at := bootRoom()
	if s == nil || int64(s.VirtualSize) < int64(len(room)) {
		return nil, errors.NotFoundf("boot file in the program")
	}
	b := make([]byte, len(room))
	if _, err := r.ReadAt(b, int64(s.Offset)+int64(s.VirtualSize)-int64(len(room))); err != nil {
		return nil, errors.Annotate(err, "cannot read boot file")
	}
	text := b[at : at+bootSpace]
	if !bytes.Equal(b[:at], room[:at]) || len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.NotFoundf("boot file in the program")
	}
	return ParseBoot(text)
}

// findBoot returns where the boot file of a medium is, in bytes. The error satisfies
// errors.NotFound if r is no medium of ours or has no such file.
func findBoot(r io.ReaderAt) (offset, length int64, err error) {
	var pvd [isoBlock]byte
	if _, err := r.ReadAt(pvd[:], 16*isoBlock); err != nil {
		return 0, 0, errors.NotFoundf("installer's medium")
	}
	if string(pvd[1:6]) != "CD001" || pvd[0] != 1 || !strings.HasPrefix(string(pvd[40:72]), disk.BootVolume) {
		return 0, 0, errors.NotFoundf("installer's medium")
	}
	le := binary.LittleEndian
	at, size := le.Uint32(pvd[156+2:]), le.Uint32(pvd[156+10:]) // the root folder's record, ECMA-119 8.4.18
	if size > maxFolder {
		return 0, 0, errors.NotValidf("root folder of %d bytes", size)
	}
	dir := make([]byte, size)
	if _, err := r.ReadAt(dir, int64(at)*isoBlock); err != nil {
		return 0, 0, errors.Annotate(err, "cannot read root folder of medium")
	}
	for off := 0; off+34 <= len(dir); {
		n := int(dir[off])
		if n == 0 { // records do not cross blocks
			off = (off/isoBlock + 1) * isoBlock
			continue
		}
		if n < 34 || off+n > len(dir) || 33+int(dir[off+32]) > n {
			return 0, 0, errors.NotValidf("root folder of medium")
		}
		rec := dir[off : off+n]
		name, _, _ := strings.Cut(string(rec[33:33+int(rec[32])]), ";")
		if sameName(name, BootFile) {
			return int64(le.Uint32(rec[2:])) * isoBlock, int64(le.Uint32(rec[10:])), nil
		}
		off += n
	}
	return 0, 0, errors.NotFoundf("boot file on the medium")
}

// sameName compares names as ISO 9660 shortens them: capitals, eight letters, three of
// the extension.
func sameName(have, want string) bool {
	base, ext, _ := strings.Cut(strings.ToUpper(want), ".")
	short := base[:min(8, len(base))] + "." + ext[:min(3, len(ext))]
	return strings.EqualFold(have, want) || strings.EqualFold(have, short)
}

// ParseBoot reads a boot file and validates it.
func ParseBoot(b []byte) (*config.Boot, error) {
	var boot config.Boot
	if err := json.Unmarshal(b, &boot); err != nil {
		return nil, errors.NewNotValid(err, "boot file")
	}
	return &boot, boot.Validate()
}
