package provision

import (
	"context"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

const (
	grubDefaults = "etc/default/grub"
	grubDropIns  = "etc/default/grub.d"
	grubDropIn   = grubDropIns + "/99-slipway.cfg"
	grubLine     = "GRUB_CMDLINE_LINUX"
	grubDefault  = "GRUB_CMDLINE_LINUX_DEFAULT"
)

// ConfigureGRUB writes GRUB kernel parameters and runs update-grub via chroot.
//
// What the system has set is kept: a parameter of Replace takes the place of every
// one with its key, one of Append is added unless it is there already, and repeating the
// call changes nothing. The result is made effective by what the system has for it: update-grub,
// grubby, or grub2-mkconfig; a system with none of them has its grub.cfg edited.
func (c *Configurator) ConfigureGRUB(ctx context.Context, cfg *config.MachineConfig) error {
	k := cfg.Kernel
	if len(k.Append)+len(k.Replace) == 0 {
		return nil
	}
	if err := c.editDefaults(k); err != nil {
		return err
	}
	if c.exists("etc/kernel/cmdline") {
		if err := c.editFile("etc/kernel/cmdline", func(s string) string { return mergeParams(strings.TrimSpace(s), k) + "\n" }); err != nil {
			return err
		}
	}
	if p := c.has("update-grub"); p != "" {
		_, err := c.disk.ChrootRun(ctx, c.root, p)
		return errors.Annotate(err, "cannot update GRUB")
	}
	effective := false
	if p := c.has("grubby"); p != "" {
		if _, err := c.disk.ChrootRun(ctx, c.root, grubbyCommand(p, k)); err != nil {
			return errors.Annotate(err, "cannot update boot entries")
		}
		effective = true
	}
	if p := c.has("grub2-mkconfig", "grub-mkconfig"); p != "" {
		out := "/boot/grub2/grub.cfg"
		if strings.HasSuffix(p, "/grub-mkconfig") {
			out = "/boot/grub/grub.cfg"
		}
		_, err := c.disk.ChrootRun(ctx, c.root, p+" -o "+out)
		return errors.Annotate(err, "cannot update GRUB")
	}
	if effective {
		return nil
	}
	return c.editBootFiles(k)
}

// editDefaults merges the parameters into the defaults from which grub.cfg is
// generated. With a folder of drop-ins the merged lines go into one of ours, read
// last; otherwise the file itself is edited.
func (c *Configurator) editDefaults(k config.Kernel) error {
	base, err := c.read(grubDefaults)
	if err != nil && !errors.Is(err, errors.NotFound) {
		return err
	}
	if errors.Is(err, errors.NotFound) && !c.exists(grubDropIns) {
		return nil // a system without such defaults
	}
	values := assignments(nil, base)
	for _, name := range c.dropIns() {
		text, err := c.read(name)
		if err != nil {
			return err
		}
		values = assignments(values, text)
	}
	line, normal := mergeBoth(values[grubLine], values[grubDefault], k)
	if c.exists(grubDropIns) {
		text := setVariable("", grubLine, line)
		if normal != values[grubDefault] {
			text = setVariable(text, grubDefault, normal)
		}
		return c.write(grubDropIn, text, 0o644)
	}
	text := setVariable(base, grubLine, line)
	if normal != values[grubDefault] {
		text = setVariable(text, grubDefault, normal)
	}
	return c.write(grubDefaults, text, 0o644)
}

// dropIns lists the drop-ins but ours, in the order they are read.
func (c *Configurator) dropIns() []string {
	names := c.glob(grubDropIns + "/*.cfg")
	return slices.DeleteFunc(names, func(n string) bool { return n == grubDropIn })
}

// glob lists what matches in the installed system.
func (c *Configurator) glob(pattern string) []string {
	root, err := os.OpenRoot(c.root)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	names, _ := fs.Glob(root.FS(), pattern)
	return names
}

// assignment matches KEY=value with the three ways of quoting.
var assignment = regexp.MustCompile(`^\s*(?:export\s+)?([A-Z_][A-Z0-9_]*)=(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S*))\s*(?:#.*)?$`)

// variable matches $KEY and ${KEY}.
var variable = regexp.MustCompile(`\$\{?([A-Z_][A-Z0-9_]*)\}?`)

// assignments reads shell assignments on top of those in values, expanding
// variables that are known.
func assignments(values map[string]string, text string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	for _, line := range strings.Split(text, "\n") {
		m := assignment.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		value := m[2] + m[4]
		if m[3] != "" {
			value = m[3]
		} else {
			value = variable.ReplaceAllStringFunc(value, func(v string) string { return values[strings.Trim(v, "${}")] })
			value = regexp.MustCompile(`\\(.)`).ReplaceAllString(value, "$1")
		}
		values[m[1]] = value
	}
	return values
}

// mergeBoth merges parameters into the two lines of GRUB's defaults: what is
// appended goes to the first, unless either has it; what is replaced leaves both.
func mergeBoth(line, normal string, k config.Kernel) (string, string) {
	missing := config.Kernel{Replace: k.Replace}
	have := strings.Fields(normal)
	for _, p := range k.Append {
		if !slices.Contains(have, p) {
			missing.Append = append(missing.Append, p)
		}
	}
	return mergeParams(line, missing), strings.Join(without(have, k.Replace), " ")
}

// mergeParams returns the parameters of line with k applied. What is already as it
// should be keeps its place, so that merging again changes nothing.
func mergeParams(line string, k config.Kernel) string {
	words := slices.DeleteFunc(strings.Fields(line), func(w string) bool {
		return !slices.Contains(k.Replace, w) && slices.ContainsFunc(k.Replace, func(p string) bool { return keyOf(p) == keyOf(w) })
	})
	for _, p := range append(slices.Clone(k.Replace), k.Append...) {
		if !slices.Contains(words, p) {
			words = append(words, p)
		}
	}
	return strings.Join(words, " ")
}

// without returns words but those whose key one of params has.
func without(words, params []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool {
		return slices.ContainsFunc(params, func(p string) bool { return keyOf(p) == keyOf(w) })
	})
}

func keyOf(param string) string {
	key, _, _ := strings.Cut(param, "=")
	return key
}

// grubbyCommand changes all boot entries. Parameters have been validated to contain
// nothing that a shell reads.
func grubbyCommand(program string, k config.Kernel) string {
	cmd := program + " --update-kernel=ALL"
	if len(k.Replace) > 0 {
		var keys []string
		for _, p := range k.Replace {
			keys = append(keys, keyOf(p))
		}
		cmd += ` --remove-args="` + strings.Join(keys, " ") + `"`
	}
	return cmd + ` --args="` + strings.Join(append(slices.Clone(k.Replace), k.Append...), " ") + `"`
}

// linuxLine matches a line of grub.cfg that loads a kernel, and optionsLine the
// parameters of a boot loader entry.
var (
	linuxLine   = regexp.MustCompile(`(?m)^(\s*linux(?:16|efi)?\s+\S+)([^\n]*)$`)
	optionsLine = regexp.MustCompile(`(?m)^(options)([^\n]*)$`)
)

// editBootFiles changes what the boot loader reads, for systems that bring no
// generator of it.
func (c *Configurator) editBootFiles(k config.Kernel) error {
	edit := func(re *regexp.Regexp) func(string) string {
		return func(text string) string {
			return re.ReplaceAllStringFunc(text, func(line string) string {
				m := re.FindStringSubmatch(line)
				return m[1] + " " + mergeParams(m[2], k)
			})
		}
	}
	found := false
	for _, f := range []struct {
		pattern string
		re      *regexp.Regexp
	}{{"boot/grub/grub.cfg", linuxLine}, {"boot/grub2/grub.cfg", linuxLine}, {"boot/loader/entries/*.conf", optionsLine}, {"boot/efi/loader/entries/*.conf", optionsLine}} {
		for _, name := range c.glob(f.pattern) {
			found = true
			if err := c.editFile(name, edit(f.re)); err != nil {
				return err
			}
		}
	}
	if !found {
		return errors.NotFoundf("boot loader configuration in the installed system")
	}
	return nil
}

// editFile replaces a file's text by what edit makes of it, if that differs.
func (c *Configurator) editFile(name string, edit func(string) string) error {
	old, err := c.read(name)
	if err != nil {
		return err
	}
	text := edit(old)
	if text == old {
		return nil
	}
	mode := os.FileMode(0o644)
	if st, err := os.Stat(path.Join(c.root, name)); err == nil {
		mode = st.Mode()
	}
	return c.write(name, text, mode)
}

// kernelEntry is what to boot.
type kernelEntry struct{ kernel, initrd, options string }

// menuParts match the lines of one menu entry.
var (
	kernelPart = regexp.MustCompile(`^\s*linux(?:16|efi)?\s+(\S+)\s*(.*)$`)
	initrdPart = regexp.MustCompile(`^\s*initrd(?:16|efi)?\s+(\S+)`)
)

// defaultKernel reads the first entry of grub.cfg, in a submenu or not. An entry
// that needs GRUB's variables is refused (errors.NotSupported): only GRUB can expand them.
func (c *Configurator) defaultKernel() (kernelEntry, error) {
	text, err := c.read("boot/grub/grub.cfg")
	if errors.Is(err, errors.NotFound) {
		text, err = c.read("boot/grub2/grub.cfg")
	}
	if err != nil {
		return kernelEntry{}, err
	}
	var e kernelEntry
	for _, line := range strings.Split(text, "\n") {
		if m := kernelPart.FindStringSubmatch(line); m != nil && e.kernel == "" {
			e.kernel, e.options = m[1], strings.TrimSpace(m[2])
		} else if m := initrdPart.FindStringSubmatch(line); m != nil && e.kernel != "" {
			e.initrd = m[1]
			break
		}
	}
	if e.kernel == "" {
		return e, errors.NotFoundf("kernel in grub.cfg")
	}
	if strings.Contains(e.kernel+e.initrd+e.options, "$") {
		return e, errors.NotSupportedf("boot entry with variables")
	}
	for _, p := range []*string{&e.kernel, &e.initrd} {
		if *p == "" {
			continue
		}
		name := strings.TrimPrefix(path.Clean(*p), "/")
		if !c.exists(name) && c.exists("boot/"+name) {
			name = "boot/" + name // /boot is a file system of its own
		}
		if !c.exists(name) {
			return e, errors.NotFoundf("%s of the boot entry", *p)
		}
		*p = path.Join(c.root, name)
	}
	return e, nil
}
