package site

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/provision/media"
)

// InstallerOptions say how bare-metal machines are installed.
type InstallerOptions struct {
	// Image is the installer's EFI program, as "make installer-image" builds it. "" means
	// installer.efi in the data directory if that is there, and otherwise none.
	Image string
	// URL is where machines reach the controller, such as https://10.0.0.1:17070; "" means
	// the first address that the site advertises.
	URL string
	// MediaURL is where BMCs reach the controller; "" means URL.
	MediaURL string
	// Images is a folder of images to serve; "" means images in the data directory.
	Images string
}

// InstallerImage returns where the installer's program is looked for.
func (d Dir) InstallerImage() string { return d.join("installer.efi") }

// Images returns where images are looked for that the controller serves.
func (d Dir) Images() string { return d.join("images") }

// config returns what the API server needs. The error satisfies errors.NotValid or
// errors.NotFound, and says what to do.
func (o InstallerOptions) config(d Dir) (apiserver.InstallerConfig, error) {
	c := apiserver.InstallerConfig{MachineURL: o.URL, MediaURL: o.MediaURL, Images: o.Images}
	for _, u := range []struct{ flag, url string }{{"--installer-url", o.URL}, {"--installer-media-url", o.MediaURL}} {
		if u.url == "" {
			continue
		}
		parsed, err := url.Parse(u.url)
		if err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
			return c, errors.NewNotValid(nil, fmt.Sprintf("%s %q is not the URL of a controller: give https://HOST:PORT", u.flag, u.url))
		}
	}
	if c.Images == "" {
		c.Images = d.Images()
	} else if info, err := os.Stat(c.Images); err != nil || !info.IsDir() {
		return c, errors.NewNotValid(nil, fmt.Sprintf("--images %q is no folder that there is", c.Images))
	}
	image := o.Image
	if image == "" {
		image = d.InstallerImage()
		if _, err := os.Stat(image); os.IsNotExist(err) {
			return c, nil
		}
	}
	if err := media.CheckProgram(image); err != nil {
		return c, errors.Annotate(err, "cannot use --installer-image")
	}
	if path, err := filepath.Abs(image); err == nil {
		image = path
	}
	c.Template = remembered(func() (*media.Template, error) { return media.NewTemplate(image, d.join("installer")) })
	return c, nil
}

// againAfter is how long a failure to prepare the installer is remembered: strangers who ask for it
// are not to have a large file read each time.
const againAfter = 10 * time.Second

// remembered calls make until it succeeds, and then returns what came of it. It calls it no
// more often than every againAfter.
func remembered(make func() (*media.Template, error)) func() (*media.Template, error) {
	var mu sync.Mutex
	var made *media.Template
	var failed error
	var next time.Time
	return func() (*media.Template, error) {
		mu.Lock()
		defer mu.Unlock()
		if made != nil {
			return made, nil
		}
		if time.Now().Before(next) {
			return nil, failed
		}
		t, err := make()
		if err != nil {
			failed, next = err, time.Now().Add(againAfter)
			logger.Errorf("cannot prepare the installer: %v", err)
			return nil, err
		}
		made = t
		return made, nil
	}
}
