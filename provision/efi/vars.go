package efi

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"
)

// globalGUID is the vendor GUID of the boot variables (EFI_GLOBAL_VARIABLE).
const globalGUID = "8be4df61-93ca-11d2-aa0d-00e098032b8c"

// attributes of the variables written here: non-volatile, boot service and
// run time access.
const attributes = 7

// immutableFlag is FS_IMMUTABLE_FL of linux/fs.h.
const immutableFlag = 0x10

// Vars is the folder where efivarfs is mounted.
type Vars struct{ dir string }

// NewVars returns the variables below dir.
func NewVars(dir string) Vars { return Vars{dir} }

// Entry is one boot entry.
type Entry struct {
	ID uint16 // the digits of BootXXXX
	Option
}

// String is how the entry is named in logs.
func (e Entry) String() string { return fmt.Sprintf("Boot%04X %q", e.ID, e.Label) }

// Entries returns all boot entries that can be parsed, by number.
func (v Vars) Entries() ([]Entry, error) {
	files, err := filepath.Glob(filepath.Join(v.dir, "Boot[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f]-"+globalGUID))
	if err != nil {
		return nil, errors.Trace(err)
	}
	var out []Entry
	for _, f := range files {
		id, err := strconv.ParseUint(filepath.Base(f)[4:8], 16, 16)
		if err != nil {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil || len(b) < 4 {
			continue
		}
		if o, err := Decode(b[4:]); err == nil {
			out = append(out, Entry{uint16(id), o})
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return int(a.ID) - int(b.ID) })
	return out, nil
}

// Order returns the boot order, empty if there is none.
func (v Vars) Order() ([]uint16, error) {
	b, err := os.ReadFile(v.file("BootOrder"))
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, errors.Annotate(err, "cannot read boot order")
	}
	var out []uint16
	for i := 4; i+1 < len(b); i += 2 {
		out = append(out, binary.LittleEndian.Uint16(b[i:]))
	}
	return out, nil
}

// Create makes o the first choice of the firmware. An entry that is there already,
// the same in everything, is used again; so repeating a call changes nothing.
func (v Vars) Create(o Option) (Entry, error) {
	all, err := v.Entries()
	if err != nil {
		return Entry{}, err
	}
	used := map[uint16]bool{}
	id := -1
	for _, e := range all {
		used[e.ID] = true
		if e.Option == o && id < 0 {
			id = int(e.ID)
		}
	}
	if id < 0 {
		for id = 0; used[uint16(id)] || v.exists(uint16(id)); id++ {
			if id == 0xffff {
				return Entry{}, errors.NotFoundf("free number for a boot entry")
			}
		}
		b, err := o.Encode()
		if err != nil {
			return Entry{}, err
		}
		if err := v.write(name(uint16(id)), b); err != nil {
			return Entry{}, err
		}
	}
	e := Entry{uint16(id), o}
	return e, v.putFirst(e.ID)
}

// Remove deletes an entry and takes it out of the boot order, in this order of safety:
// first the order, then the entry.
func (v Vars) Remove(id uint16) error {
	order, err := v.Order()
	if err != nil {
		return err
	}
	if slices.Contains(order, id) {
		if err := v.writeOrder(slices.DeleteFunc(order, func(o uint16) bool { return o == id })); err != nil {
			return err
		}
	}
	path := v.file(name(id))
	mutable(path)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return errors.Annotatef(err, "cannot remove boot entry %04X", id)
	}
	return nil
}

// putFirst makes id the first of the boot order.
func (v Vars) putFirst(id uint16) error {
	order, err := v.Order()
	if err != nil {
		return err
	}
	if len(order) > 0 && order[0] == id {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(order), func(o uint16) bool { return o == id })
	return v.writeOrder(append([]uint16{id}, rest...))
}

func (v Vars) writeOrder(order []uint16) error {
	var b []byte
	for _, id := range order {
		b = binary.LittleEndian.AppendUint16(b, id)
	}
	return v.write("BootOrder", b)
}

// write sets a variable by one write, as efivarfs demands.
func (v Vars) write(name string, data []byte) error {
	path := v.file(name)
	mutable(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return errors.Annotatef(err, "cannot write variable %s", name)
	}
	b := append([]byte{attributes, 0, 0, 0}, data...)
	_, err = f.Write(b)
	if st, serr := f.Stat(); err == nil && serr == nil && st.Size() > int64(len(b)) {
		err = f.Truncate(int64(len(b))) // an ordinary folder keeps the old end
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return errors.Annotatef(err, "cannot write variable %s", name)
}

func (v Vars) exists(id uint16) bool {
	_, err := os.Lstat(v.file(name(id)))
	return err == nil
}

func (v Vars) file(name string) string { return filepath.Join(v.dir, name+"-"+globalGUID) }

func name(id uint16) string { return fmt.Sprintf("Boot%04X", id) }

// mutable takes the immutable flag from a variable, which efivarfs sets on most as a
// guard against rm -rf. Where there is no such flag nothing happens.
func mutable(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil && flags&immutableFlag != 0 {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^immutableFlag)
	}
}

// FindLoader returns the file on an EFI system partition, mounted at dir, by which
// the installed system starts, as firmware names it. A vendor's folder is preferred to
// the fallback folder BOOT, a shim to what it would start, and of several vendors the one
// that vendor names (from the system's os-release; "" for none). No distribution's
// name is known here. The error satisfies errors.NotFound.
func FindLoader(dir, arch, vendor string) (string, error) {
	suffix := map[string]string{"amd64": "x64", "arm64": "aa64"}[arch]
	if suffix == "" {
		return "", errors.NotSupportedf("EFI boot on %s", arch)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", errors.NotFoundf("EFI system partition at %s", dir)
	}
	defer func() { _ = root.Close() }()
	efi, ok := child(root, ".", "efi", true)
	if !ok {
		return "", errors.NotFoundf("folder EFI on the EFI system partition")
	}
	vendors := folders(root, efi)
	slices.SortStableFunc(vendors, func(a, b string) int { return rankVendor(a, vendor) - rankVendor(b, vendor) })
	for _, folder := range vendors {
		for _, file := range []string{"shim" + suffix + ".efi", "grub" + suffix + ".efi", "systemd-boot" + suffix + ".efi", "boot" + suffix + ".efi"} {
			if path, ok := child(root, filepath.Join(efi, folder), file, false); ok {
				return `\` + strings.ReplaceAll(path, "/", `\`), nil
			}
		}
	}
	return "", errors.NotFoundf("EFI loader for %s in the folders %s", arch, strings.Join(vendors, ", "))
}

// rankVendor orders folders: the named vendor, others, the fallback.
func rankVendor(folder, vendor string) int {
	switch {
	case vendor != "" && strings.EqualFold(folder, vendor):
		return 0
	case strings.EqualFold(folder, "boot"):
		return 2
	}
	return 1
}

// child finds name in dir without regard to case, as FAT does.
func child(root *os.Root, dir, name string, folder bool) (string, bool) {
	f, err := root.Open(dir)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	entries, err := f.ReadDir(4096)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) && e.IsDir() == folder && (folder || e.Type().IsRegular()) {
			return filepath.Join(dir, e.Name()), true
		}
	}
	return "", false
}

// folders lists the folders in dir, sorted.
func folders(root *os.Root, dir string) []string {
	f, err := root.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	entries, _ := f.ReadDir(4096)
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out
}
