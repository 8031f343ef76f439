// Package installer serves the machines that are being installed: what they boot from,
// what they are to become, and what they report. It is plain HTTP over the server's TLS, since
// an installer, a BMC and firmware speak nothing else.
//
// # Who may do what
//
// A medium is given to whoever knows its path, which has 256 random bits in it, for an hour
// and until its token is used. A token gives a credential to one key. A credential gives one
// host's order, and takes one host's reports, in one boot. Whoever shows none of these
// learns nothing: every refusal reads the same, whether there is such a host or not.
//
// Images, and the installer's program as it is the same for all, are open to whoever reaches
// the server, as agent binaries are: they hold nothing of a site or of a host.
//
// # Network boot
//
// UEFI HTTP boot gets a program with the host's boot file inside, at a path as secret as a
// medium's. It is the weaker mode: firmware checks the server's certificate only where the authority
// was installed in it, and a signature of the program does not hold for it. The iPXE script
// starts the program that is the same for all: to a MAC address alone nothing secret is given.
package installer

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
	"github.com/slipway-project/slipway/state/install"
)

var logger = loggo.GetLogger("slipway.apiserver.installer")

// The bounds on what is sent to us, in bytes.
const (
	maxExchange = 16 << 10
	maxStatus   = 256 << 10
	maxReport   = 256 << 10 // inventory, firmware and health, each
	maxLog      = 1 << 20
	maxBeat     = 1 << 10
	maxLines    = 5000 // of a log in one request
)

// Config says what is served. Installs and Machines are required.
type Config struct {
	Installs *install.Installs
	// Template returns the template of media; the error satisfies errors.NotFound where none
	// is configured. Nil means that none is.
	Template func() (*media.Template, error)
	// Machines returns the URL at which machines reach below.InstallerBase.
	Machines func(ctx context.Context) (string, error)
	// CA returns the authority that machines are to believe, as PEM.
	CA func() string
	// Images is a folder of images; "" means that there are none.
	Images string
}

// Handlers serves installers.
type Handlers struct {
	cfg      Config
	failures *limiter // of an address, at proving itself
	requests *limiter // of a host
}

// New returns what serves installers.
func New(cfg Config) *Handlers {
	return &Handlers{cfg: cfg, failures: newLimiter(60, 1), requests: newLimiter(200, 50)}
}

// Route is what is served at a pattern of http.ServeMux.
type Route struct {
	Pattern string
	Handle  http.HandlerFunc
}

// Routes returns the table of what is served.
func (h *Handlers) Routes() []Route {
	return []Route{
		{"GET " + below.InstallerBase + "/{$}", h.base},
		{"POST " + below.InstallerBase + "/token", h.exchange},
		{"GET " + below.InstallerBase + "/config", h.session(h.config)},
		{"POST " + below.InstallerBase + "/status", h.session(h.status)},
		{"POST " + below.InstallerBase + "/inventory", h.session(h.keep(install.KindInventory))},
		{"POST " + below.InstallerBase + "/firmware", h.session(h.keep(install.KindFirmware))},
		{"POST " + below.InstallerBase + "/health", h.session(h.keep(install.KindHealth))},
		{"POST " + below.InstallerBase + "/heartbeat", h.session(h.heartbeat)},
		{"POST " + below.InstallerBase + "/log", h.session(h.log)},
		{"GET " + below.InstallerBase + "/media/{host}/{secret}/installer.iso", h.medium((*media.Template).ISO)},
		{"GET " + below.InstallerBase + "/media/{host}/{secret}/boot.efi", h.medium((*media.Template).Program)},
		{"GET " + below.InstallerBase + "/boot.efi", h.generic},
		{"GET " + below.InstallerBase + "/ipxe", h.ipxe},
		{"GET " + below.InstallerBase + "/images/{name}", h.image},
	}
}

// refuse answers with an error, in one line of text.
func refuse(w http.ResponseWriter, err error) {
	code, text := http.StatusInternalServerError, "the controller has an error of its own; see its log"
	switch {
	case errors.Is(err, context.Canceled): // the client has gone: nobody reads it
		code, text = http.StatusServiceUnavailable, "the request was given up"
	case errors.Is(err, kind.Contention):
		code, text = http.StatusServiceUnavailable, "too many reports at once: send one after another"
	case errors.Is(err, errBroken):
		code, text = http.StatusInternalServerError, string(errBroken)
	case errors.Is(err, install.ErrUnknown):
		code, text = http.StatusUnauthorized, string(install.ErrUnknown)
	case errors.Is(err, install.ErrUsedTwice):
		code, text = http.StatusForbidden, string(install.ErrUsedTwice)
	case errors.Is(err, install.ErrOver):
		code, text = http.StatusGone, string(install.ErrOver)
	case errors.Is(err, errors.NotFound):
		code, text = http.StatusNotFound, err.Error()
	case errors.Is(err, errors.NotSupported):
		code, text = http.StatusNotImplemented, err.Error()
	case errors.Is(err, errors.NotValid):
		code, text = http.StatusBadRequest, err.Error()
	default:
		logger.Errorf("cannot serve an installer: %v", err)
	}
	http.Error(w, text, code)
}

// tooMany answers whoever asks too often.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, "too many requests", http.StatusTooManyRequests)
}

// address returns who sent a request.
func address(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// read reads a JSON body of at most so many bytes. It answers itself if that fails.
func read(w http.ResponseWriter, r *http.Request, limit int64, v any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(v)
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		http.Error(w, "the body is too long", http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, "the body is not the JSON that is wanted", http.StatusBadRequest)
	}
	return err == nil
}

// base answers whoever wants to know the time, which every answer tells.
func (h *Handlers) base(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// exchange takes a token and gives a credential.
func (h *Handlers) exchange(w http.ResponseWriter, r *http.Request) {
	from := address(r)
	if !h.failures.ok(from) {
		tooMany(w)
		return
	}
	var e config.Exchange
	if !read(w, r, maxExchange, &e) {
		h.failures.take(from)
		return
	}
	credential, err := h.cfg.Installs.Exchange(r.Context(), e)
	if err != nil {
		h.failures.take(from)
		logger.Infof("%s: token refused: %v", from, err)
		refuse(w, err)
		return
	}
	logger.Infof("%s: the installer of host %s has proved itself, boot %d", from, e.Host, e.Boot)
	answer(w, struct {
		Credential config.Secret `json:"credential"`
	}{credential})
}

// answer sends JSON.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

// session finds out who sends a request.
func (h *Handlers) session(handle func(http.ResponseWriter, *http.Request, *install.Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := address(r)
		credential, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			refuse(w, install.ErrUnknown)
			return
		}
		if !h.failures.ok(from) {
			tooMany(w)
			return
		}
		s, err := h.cfg.Installs.Authenticate(r.Context(), config.Secret(credential))
		if err != nil {
			h.failures.take(from)
			refuse(w, err)
			return
		}
		if !h.requests.ok(s.Host()) {
			tooMany(w)
			return
		}
		h.requests.take(s.Host())
		handle(w, r, s)
	}
}

// done answers a report.
func done(w http.ResponseWriter, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handlers) config(w http.ResponseWriter, r *http.Request, s *install.Session) {
	c, err := s.Config(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, c)
}

func (h *Handlers) status(w http.ResponseWriter, r *http.Request, s *install.Session) {
	var st config.Status
	if read(w, r, maxStatus, &st) {
		done(w, s.Report(r.Context(), st))
	}
}

func (h *Handlers) keep(k install.Kind) func(http.ResponseWriter, *http.Request, *install.Session) {
	return func(w http.ResponseWriter, r *http.Request, s *install.Session) {
		var report json.RawMessage
		if read(w, r, maxReport, &report) {
			done(w, s.Keep(r.Context(), k, report))
		}
	}
}

func (h *Handlers) heartbeat(w http.ResponseWriter, r *http.Request, s *install.Session) {
	var nothing struct{}
	if read(w, r, maxBeat, &nothing) {
		done(w, s.Heartbeat(r.Context()))
	}
}

func (h *Handlers) log(w http.ResponseWriter, r *http.Request, s *install.Session) {
	var lines []string
	if !read(w, r, maxLog, &lines) {
		return
	}
	if len(lines) > maxLines {
		http.Error(w, "too many lines", http.StatusRequestEntityTooLarge)
		return
	}
	done(w, s.AddLog(r.Context(), lines))
}

// template returns the template of media, or an error satisfying errors.NotFound.
func (h *Handlers) template() (*media.Template, error) {
	if h.cfg.Template == nil {
		return nil, errNoInstaller
	}
	return h.cfg.Template()
}

// medium serves what one host boots from, whole or in parts.
func (h *Handlers) medium(open func(*media.Template, config.Boot) (*media.Medium, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := address(r)
		if !h.failures.ok(from) {
			tooMany(w)
			return
		}
		boot, err := h.cfg.Installs.Medium(r.Context(), r.PathValue("host"), config.Secret(r.PathValue("secret")))
		if err != nil {
			h.failures.take(from)
			if errors.Is(err, install.ErrUnknown) {
				http.NotFound(w, r)
				return
			}
			refuse(w, err)
			return
		}
		server, err := h.cfg.Machines(r.Context())
		if err != nil {
			refuse(w, err)
			return
		}
		boot.Server, boot.CA = server, h.cfg.CA()
		h.serve(w, r, func(t *media.Template) (*media.Medium, error) { return open(t, boot) })
	}
}

// generic serves the program that is the same for all.
func (h *Handlers) generic(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, (*media.Template).Generic)
}

// serve serves a medium.
func (h *Handlers) serve(w http.ResponseWriter, r *http.Request, open func(*media.Template) (*media.Medium, error)) {
	t, err := h.template()
	if err != nil {
		refuse(w, broken(err))
		return
	}
	m, err := open(t)
	if err != nil {
		refuse(w, broken(err))
		return
	}
	defer func() { _ = m.Close() }() // only read
	w.Header().Set("ETag", m.ETag())
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", m.ModTime(), m)
}

// errBroken is what strangers are told of an installer's image that cannot be used: not where
// it lies. The log says why.
const errBroken = errors.ConstError("the controller's installer cannot be used; see its log")

// broken returns errBroken for an error that is about files of the controller.
func broken(err error) error {
	if errors.Is(err, errNoInstaller) || errors.Is(err, errors.NotSupported) {
		return err
	}
	logger.Errorf("cannot serve the installer: %v", err)
	return errBroken
}

// errNoInstaller says that none is configured.
var errNoInstaller = errors.NewNotFound(nil, "this controller has no installer: start controllerd with --installer-image FILE")

// ipxe serves the script that starts the program that is the same for all.
func (h *Handlers) ipxe(w http.ResponseWriter, r *http.Request) {
	if _, err := h.template(); err != nil {
		refuse(w, broken(err))
		return
	}
	server, err := h.cfg.Machines(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("#!ipxe\n# The installer without a token: it looks for a medium of its host, which the BMC has.\nchain " + server + "/boot.efi\n"))
}

// imageName is what the file of an image may be called.
var imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,199}$`)

// image serves a file of the folder of images, whole or in parts.
func (h *Handlers) image(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if h.cfg.Images == "" || !imageName.MatchString(name) {
		http.NotFound(w, r)
		return
	}
	// Whoever opens a pipe would wait until somebody writes to it.
	f, err := os.OpenFile(filepath.Join(h.cfg.Images, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if !os.IsNotExist(err) {
			logger.Warningf("cannot serve image %s: %v", name, err)
		}
		http.NotFound(w, r)
		return
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", etagOf(st))
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", st.ModTime(), f)
}
