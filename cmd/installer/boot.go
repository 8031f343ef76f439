package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
)

// bootWait is how long a medium may take to appear: a virtual drive of a BMC is
// plugged in by USB.
const bootWait = 2 * time.Minute

// findBoot returns the boot file: of the initramfs, which a network boot may have
// brought, or of a medium of ours in any drive.
func (i *installer) findBoot(ctx context.Context) (*config.Boot, error) {
	ctx, cancel := context.WithTimeout(ctx, i.limit(bootWait))
	defer cancel()
	for {
		boot, err := i.lookForBoot()
		if !errors.Is(err, errors.NotFound) {
			return boot, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.NotFoundf("boot file on any medium")
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// lookForBoot looks once.
func (i *installer) lookForBoot() (*config.Boot, error) {
	b, err := os.ReadFile(filepath.Join(i.root, media.BootFile))
	if err == nil && len(bytes.TrimSpace(b)) > 0 { // the initramfs has room for one, which may be empty
		return media.ParseBoot(b)
	}
	names, err := os.ReadDir(filepath.Join(i.disks.SysRoot, "block"))
	if err != nil {
		return nil, errors.Annotate(err, "cannot list drives")
	}
	// Optical drives first: a disk could carry an old medium's copy.
	slices.SortStableFunc(names, func(a, b os.DirEntry) int {
		return optical(b.Name()) - optical(a.Name())
	})
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "loop") || strings.HasPrefix(n.Name(), "ram") {
			continue
		}
		d, err := i.disks.Devices.Open("/dev/"+n.Name(), false)
		if err != nil {
			continue
		}
		boot, err := media.ReadBoot(d)
		_ = d.Close()
		if errors.Is(err, errors.NotFound) {
			continue
		}
		if err != nil {
			logger.Warningf("medium in %s: %v", n.Name(), err)
			continue
		}
		logger.Infof("boot file from %s", n.Name())
		return boot, nil
	}
	return nil, errors.NotFoundf("boot file")
}

// optical is 1 for an optical drive.
func optical(name string) int {
	if strings.HasPrefix(name, "sr") {
		return 1
	}
	return 0
}
