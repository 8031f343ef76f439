package apiserver

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/installer"
	"github.com/slipway-project/slipway/provision/media"
	"github.com/slipway-project/slipway/state/install"
)

// InstallerConfig says how machines are installed. The zero value serves the reports
// of installers, and nothing to boot from.
type InstallerConfig struct {
	// Template returns the template of media; nil means that there is none.
	Template func() (*media.Template, error)
	// MachineURL is where machines reach the server, such as https://10.0.0.1:17070; ""
	// means the first address that the site advertises.
	MachineURL string
	// MediaURL is where BMCs reach the server; "" means MachineURL.
	MediaURL string
	// Images is a folder of images to serve; "" means that there are none.
	Images string
}

// installerRoutes returns the routes of machines that are being installed.
func (s *Server) installerRoutes() []route {
	c := s.cfg.Installer
	h := installer.New(installer.Config{
		Installs: install.New(s.cfg.Controller.SiteDocs()), Template: c.Template, Images: c.Images,
		Machines: s.machineURL, CA: func() string { return *s.authority.Load() },
	})
	var table []route
	for _, r := range h.Routes() {
		table = append(table, route{r.Pattern, r.Handle})
	}
	return table
}

// machineURL returns the URL of the installers' endpoints, as machines reach them.
func (s *Server) machineURL(ctx context.Context) (string, error) {
	if u := s.cfg.Installer.MachineURL; u != "" {
		return strings.TrimSuffix(u, "/") + below.InstallerBase, nil
	}
	servers, err := s.cfg.Controller.APIHostPorts(ctx)
	if err != nil {
		return "", errors.Trace(err)
	}
	for _, server := range servers {
		for _, at := range server {
			return "https://" + net.JoinHostPort(at.Value, strconv.Itoa(at.Port)) + below.InstallerBase, nil
		}
	}
	return "", errors.NewNotSupported(nil, "nobody knows at which address machines reach the controller: start controllerd with --installer-url URL")
}

// mediaURL returns below which URL BMCs fetch media.
func (s *Server) mediaURL(ctx context.Context) (string, error) {
	c := s.cfg.Installer
	if c.Template == nil {
		return "", errors.NewNotSupported(nil, "this controller has no installer: build one with \"make installer-image\" and start controllerd with --installer-image FILE")
	}
	if c.MediaURL != "" {
		return strings.TrimSuffix(c.MediaURL, "/") + below.InstallerBase, nil
	}
	return s.machineURL(ctx)
}
