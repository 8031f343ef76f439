package provision

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// CopyProvisionerFiles copies files from /deploy/file-system/ to the root.
func (c *Configurator) CopyProvisionerFiles() error { return c.copyTree("file-system") }

// CopyMachineFiles copies files from /deploy/machine-files/ to the root.
func (c *Configurator) CopyMachineFiles() error { return c.copyTree("machine-files") }

// copyTree copies a folder of what was brought along over the installed system. Regular
// files keep their mode and belong to root; links are left out with a warning; there
// being no such folder is fine.
func (c *Configurator) copyTree(folder string) error {
	from := filepath.Join(c.deploy, folder)
	if _, err := os.Stat(from); os.IsNotExist(err) {
		logger.Debugf("no %s were brought along", folder)
		return nil
	}
	source, err := os.OpenRoot(from)
	if err != nil {
		return errors.Annotatef(err, "cannot copy %s", folder)
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenRoot(c.root)
	if err != nil {
		return errors.Annotate(err, "cannot open installed system")
	}
	defer func() { _ = target.Close() }()
	err = fs.WalkDir(source.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return target.MkdirAll(name, 0o755)
		case !e.Type().IsRegular():
			logger.Warningf("%s/%s is not copied: it is no regular file", folder, name)
			return nil
		}
		return copyFile(source, target, name)
	})
	return errors.Annotatef(err, "cannot copy %s", folder)
}

// copyFile copies one file with its mode, in place of what was there.
func copyFile(source, target *os.Root, name string) error {
	in, err := source.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	tmp := path.Join(path.Dir(name), ".slipway-"+path.Base(name))
	_ = target.Remove(tmp)
	out, err := target.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(st.Mode())
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = target.Rename(tmp, name)
	}
	if err != nil {
		_ = target.Remove(tmp)
	}
	return err
}

// maxScript is the longest script in bytes; a kernel takes 128 KiB in one argument.
const maxScript = 120 << 10

// RunMachineCommands executes commands from /deploy/machine-commands/ in chroot. Each
// regular file is one script, of as many lines as it likes; they run in the order of
// their names and the first that fails ends it.
func (c *Configurator) RunMachineCommands(ctx context.Context) error {
	dir := filepath.Join(c.deploy, "machine-commands")
	entries, err := os.ReadDir(dir) // sorted
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return errors.Annotate(err, "cannot list machine commands")
	}
	var scripts []string
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return errors.Annotate(err, "cannot read machine command")
		}
		scripts = append(scripts, string(b))
	}
	return c.RunScripts(ctx, scripts)
}

// RunScripts runs each script by a shell inside the installed system. Empty ones
// are left out and the first that fails ends it.
func (c *Configurator) RunScripts(ctx context.Context, scripts []string) error {
	for i, s := range scripts {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if len(s) > maxScript {
			return errors.NotValidf("machine command %d of %d bytes (want %d at most)", i+1, len(s), maxScript)
		}
		first, _, _ := strings.Cut(s, "\n")
		logger.Infof("machine command %d: %s", i+1, config.Redact(first))
		if _, err := c.disk.ChrootRun(ctx, c.root, s); err != nil {
			return errors.Annotatef(err, "cannot run machine command %d", i+1)
		}
	}
	return nil
}

// shellToken matches what joins commands or redirects them.
var shellToken = regexp.MustCompile("&|\\||;|`|\\$\\(|>|<|\n|\r")

// RunPostProvisionCmds executes custom commands in the chroot after provisioning. Each
// command is run via /bin/bash -c in the chroot environment. An entry is one command: one that
// joins commands or redirects output is refused before any runs, and belongs in a script.
func (c *Configurator) RunPostProvisionCmds(ctx context.Context, cmds []string) error {
	for _, cmd := range cmds {
		if token := shellToken.FindString(strings.TrimSpace(cmd)); token != "" {
			return errors.NewNotValid(nil, fmt.Sprintf("post-provision command has the blocked shell token %q (use a machine command for a script)", token))
		}
	}
	for i, cmd := range cmds {
		cmd = strings.TrimSpace(cmd)
		if cmd == "" {
			continue
		}
		logger.Infof("post-provision command: %s", config.Redact(cmd))
		if _, err := c.disk.ChrootRun(ctx, c.root, cmd); err != nil {
			return errors.Annotatef(err, "cannot run post-provision command %d", i+1)
		}
	}
	return nil
}

// disabled is what disableBoot puts behind a name.
const disabled = ".slipway-off"

// disableBoot renames what boot loaders read and returns the new names.
func (c *Configurator) disableBoot() ([]string, error) {
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return nil, errors.Annotate(err, "cannot open installed system")
	}
	defer func() { _ = root.Close() }()
	var renamed []string
	for _, pattern := range []string{"boot/grub/grub.cfg", "boot/grub2/grub.cfg", "boot/loader/entries/*.conf",
		"boot/efi/EFI/*/grub.cfg", "efi/EFI/*/grub.cfg", "boot/efi/loader/entries/*.conf", "efi/loader/entries/*.conf", "boot/efi/EFI/Linux/*.efi", "efi/EFI/Linux/*.efi"} {
		names, err := fs.Glob(root.FS(), pattern)
		if err != nil {
			return renamed, errors.Trace(err)
		}
		for _, name := range names {
			if err := root.Rename(name, name+disabled); err != nil {
				return renamed, errors.Annotatef(err, "cannot rename %s of the installed system", name)
			}
			renamed = append(renamed, name+disabled)
		}
	}
	return renamed, nil
}
