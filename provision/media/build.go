package media

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/juju/errors"
	kgzip "github.com/klauspost/compress/gzip"
)

// Config says what to build an installer of.
type Config struct {
	Kernel      string   // file; its modules must match
	Modules     string   // lib/modules/VERSION of that kernel, after depmod; "" for none
	Installer   string   // the installer's program, statically linked
	Programs    []string // further programs, each with its libraries; busybox gives the shell
	Stub        string   // EFI stub of systemd-boot
	CommandLine string   // of the kernel; "" means DefaultCommandLine
	Arch        string   // as Go names it

	// SignKey and SignCert sign the EFI program for Secure Boot: PEM files of a key
	// without a passphrase and of its certificate. "" leaves it unsigned.
	SignKey, SignCert string
}

// DefaultCommandLine puts messages on the screen and on the first serial port, keeps the
// kernel's names of network ports, and restarts after a panic.
const DefaultCommandLine = "console=tty0 console=ttyS0,115200n8 net.ifnames=0 panic=30"

// Output is where Build puts what it makes, all below one folder.
type Output struct {
	Kernel string // a copy, for network boot
	Initrd string
	EFI    string // the unified kernel image
	ESP    string // a FAT file system that starts it
	ISO    string // a medium without a boot file
}

// OutputIn names the files in a folder.
func OutputIn(dir string) Output {
	return Output{
		Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd.gz"), EFI: filepath.Join(dir, "installer.efi"),
		ESP: filepath.Join(dir, "efi.img"), ISO: filepath.Join(dir, "installer.iso"),
	}
}

// authorities is where Debian keeps the certificates of public authorities; they are
// for images on public servers, and left out where there are none.
const authorities = "/etc/ssl/certs/ca-certificates.crt"

// Initrd makes the initramfs, compressed with gzip. It ends with room for a boot file; see
// Template.
func Initrd(c Config) ([]byte, error) {
	var a Archive
	for _, dir := range []string{"/dev", "/proc", "/sys", "/tmp", "/run", "/etc", "/newroot", "/deploy", "/root", "/sbin"} {
		a.Dir(dir)
	}
	a.Char("/dev/console", 0o600, 5, 1)
	a.Char("/dev/null", 0o666, 1, 3)
	if b, err := os.ReadFile(authorities); err == nil {
		a.File(authorities, 0o644, b)
	}
	init, err := os.ReadFile(c.Installer)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read installer")
	}
	a.File("/init", 0o755, init)
	for _, p := range c.Programs {
		if err := addProgram(&a, p); err != nil {
			return nil, err
		}
		if filepath.Base(p) == "busybox" {
			for _, applet := range applets {
				if !a.Has("/bin/" + applet) {
					a.Link("/bin/"+applet, "busybox")
				}
			}
		}
	}
	if c.Modules != "" {
		if err := addModules(&a, c.Modules); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	z, err := kgzip.NewWriterLevel(&out, 6)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if _, err := a.WriteTo(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, errors.Annotate(err, "cannot compress initramfs")
	}
	out.Write(make([]byte, (4-out.Len()%4)%4)) // another archive begins on four bytes
	room, _ := bootRoom()
	out.Write(room)
	return out.Bytes(), nil
}

// applets are the programs of busybox that the pipeline, its dumps and a rescue shell use.
var applets = []string{
	"sh", "mount", "umount", "chroot", "cat", "ls", "df", "dmesg", "ps", "ip", "lsblk", "grep", "setsid", "cttyhack", "vi", "less", "head", "tail", "ping", "wget",
	"mkdir", "rm", "cp", "mv", "ln", "sync", "reboot", "poweroff", "sleep", "echo", "blkid", "fdisk", "hexdump", "dd", "lsmod", "lspci", "free", "uptime", "env", "nslookup", "find",
}

// Build makes all files in dir, which replace those that are there once all are made: an error
// leaves what was there.
func Build(c Config, dir string) (Output, error) {
	o := OutputIn(dir)
	if _, err := loaderOf(c.Arch); err != nil {
		return o, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return o, errors.Annotate(err, "cannot make folder")
	}
	fresh, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return o, errors.Annotate(err, "cannot make folder")
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	n := OutputIn(fresh)
	if err := n.build(c); err != nil {
		return o, err
	}
	for from, to := range map[string]string{n.Kernel: o.Kernel, n.Initrd: o.Initrd, n.EFI: o.EFI, n.ESP: o.ESP, n.ISO: o.ISO} {
		if err := os.Rename(from, to); err != nil {
			return o, errors.Annotate(err, "cannot put installer in its place")
		}
	}
	return o, nil
}

// build makes all files.
func (o Output) build(c Config) error {
	if c.CommandLine == "" {
		c.CommandLine = DefaultCommandLine
	}
	kernel, err := os.ReadFile(c.Kernel)
	if err != nil {
		return errors.Annotate(err, "cannot read kernel")
	}
	stub, err := os.ReadFile(c.Stub)
	if err != nil {
		return errors.Annotate(err, "cannot read EFI stub")
	}
	initrd, err := Initrd(c)
	if err != nil {
		return err
	}
	program, err := UKI(stub, kernel, initrd, c.CommandLine)
	if err != nil {
		return err
	}
	for path, b := range map[string][]byte{o.Kernel: kernel, o.Initrd: initrd, o.EFI: program} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return errors.Annotate(err, "cannot write installer")
		}
	}
	if c.SignKey != "" {
		if err := sign(o.EFI, c.SignKey, c.SignCert); err != nil {
			return err
		}
		if program, err = os.ReadFile(o.EFI); err != nil {
			return errors.Annotate(err, "cannot read signed installer")
		}
	}
	if err := WriteESP(o.ESP, program, c.Arch); err != nil {
		return err
	}
	return WriteISO(o.ISO, o.ESP, nil)
}
