// Command installer-image builds what machines boot their installer from: an
// initramfs, one EFI program, and an ISO medium, of a given kernel and the programs of
// the machine it runs on.
//
//	installer-image --kernel vmlinuz --modules lib/modules/6.1.0 --installer bin/installer --out dist/installer
//
// With --boot FILE it writes, besides, a medium for one host (--iso). With --sign-key and
// --sign-cert the EFI program is signed for machines with Secure Boot.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/media"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "installer-image: %v\n", err)
		os.Exit(1)
	}
}

const errUsage = errors.ConstError("usage")

// defaultPrograms are copied if this machine has them; busybox must be there.
const defaultPrograms = "busybox,e2fsck,resize2fs,mkfs.ext4,mkfs.vfat,mkswap,xfs_repair,xfs_growfs,mkfs.xfs,btrfs,lvm,mdadm,nvme,hdparm"

// run builds as args say.
func run(_ context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("installer-image", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // an error is one line; all flags are there for who asks
	var c media.Config
	fs.StringVar(&c.Kernel, "kernel", "", "kernel `file`")
	fs.StringVar(&c.Modules, "modules", "", "`folder` lib/modules/VERSION of that kernel, after depmod")
	fs.StringVar(&c.Installer, "installer", "bin/installer", "installer `program`, statically linked")
	fs.StringVar(&c.Stub, "stub", "/usr/lib/systemd/boot/efi/linuxx64.efi.stub", "EFI stub `file` of systemd-boot")
	fs.StringVar(&c.CommandLine, "cmdline", media.DefaultCommandLine, "kernel `parameters`")
	fs.StringVar(&c.Arch, "arch", runtime.GOARCH, "`architecture` of the machines")
	fs.StringVar(&c.SignKey, "sign-key", "", "PEM `file` of the key that signs installer.efi for Secure Boot, by sbsign; none: it is not signed")
	fs.StringVar(&c.SignCert, "sign-cert", "", "PEM `file` of that key's certificate, which machines' firmware has to know")
	programs := fs.String("programs", defaultPrograms, "`names` of further programs, with commas; those that are not here are left out, but for the first")
	out := fs.String("out", "dist/installer", "`folder` to write to")
	boot := fs.String("boot", "", "boot `file` of one host, for --iso")
	iso := fs.String("iso", "", "medium to write for that host, a `file`")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(stderr)
		fs.Usage()
		return nil
	}
	problem := unclear(c, fs.Args(), *boot, *iso)
	if err != nil {
		problem = err.Error()
	}
	if problem != "" {
		_, _ = fmt.Fprintln(stderr, "installer-image: "+problem+" (see \"installer-image --help\")")
		return errUsage
	}
	if c.Programs, err = find(strings.Split(*programs, ","), stderr); err != nil {
		return err
	}
	o, err := media.Build(c, *out)
	if err != nil {
		return err
	}
	files := []string{o.Kernel, o.Initrd, o.EFI, o.ESP, o.ISO}
	if *boot != "" {
		if err := hostISO(*boot, o.ESP, *iso); err != nil {
			return err
		}
		files = append(files, *iso)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return errors.Annotate(err, "cannot find what was written")
		}
		if _, err := fmt.Fprintf(stdout, "%-40s %6.1f MiB\n", f, float64(st.Size())/(1<<20)); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// unclear says in one line what makes no sense; empty: nothing.
func unclear(c media.Config, args []string, boot, iso string) string {
	switch {
	case len(args) > 0:
		return fmt.Sprintf("unexpected argument %q", args[0])
	case c.Kernel == "":
		return "no kernel named: give --kernel FILE"
	case (boot == "") != (iso == ""):
		return "--boot and --iso go together"
	case (c.SignKey == "") != (c.SignCert == ""):
		return "--sign-key and --sign-cert go together"
	}
	return ""
}

// find returns the paths of programs.
func find(names []string, stderr io.Writer) ([]string, error) {
	var out []string
	for i, name := range names {
		path, err := exec.LookPath(strings.TrimSpace(name))
		switch {
		case err == nil:
			out = append(out, path)
		case i == 0:
			return nil, errors.NotFoundf("program %s", name)
		default:
			_, _ = fmt.Fprintf(stderr, "installer-image: without %s, which this machine lacks\n", name)
		}
	}
	return out, nil
}

// hostISO writes one host's medium.
func hostISO(bootFile, esp, iso string) error {
	b, err := os.ReadFile(bootFile)
	if err != nil {
		return errors.Annotate(err, "cannot read boot file")
	}
	boot, err := media.ParseBoot(b)
	if err != nil {
		return err
	}
	return media.WriteISO(iso, esp, boot)
}
