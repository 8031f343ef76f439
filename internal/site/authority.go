package site

import (
	"context"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

const (
	// refreshEvery is how soon a replacement of the authority is noticed.
	refreshEvery = 2 * time.Second
	// recyclePace is the time between two clients that are asked to log in
	// anew, so that not all do so at once.
	recyclePace = 10 * time.Millisecond
)

// authority follows what becomes of the certificate authority, and tells clients:
// those that are connected by having them log in anew, the site's first user and
// worker through their files.
type authority struct {
	tomb     tomb.Tomb
	dir      Dir
	settings Settings
	certs    *tlsfiles.Dir
	server   *apiserver.Server
}

// newAuthority brings the site's files up to date, and follows the authority from
// then on.
func newAuthority(ctx context.Context, d Dir, settings Settings, certs *tlsfiles.Dir, server *apiserver.Server) (*authority, error) {
	a := &authority{dir: d, settings: settings, certs: certs, server: server}
	if err := a.tellFiles(ctx); err != nil {
		return nil, errors.Trace(err)
	}
	a.tomb.Go(a.loop)
	return a, nil
}

// Kill asks it to stop.
func (a *authority) Kill() { a.tomb.Kill(nil) }

// Wait returns when it has stopped.
func (a *authority) Wait() error { return a.tomb.Wait() }

func (a *authority) loop() error {
	ctx := a.tomb.Context(nil)
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	told := true       // whether clients have been told of the newest
	var failing string // why not; said once
	for {
		select {
		case <-a.tomb.Dying():
			return nil
		case <-ticker.C:
		}
		changed, err := a.certs.Refresh()
		told = told && !changed
		if err == nil && !told {
			err = a.tell(ctx)
			told = err == nil
		}
		switch {
		case err == nil:
			failing = ""
		case err.Error() != failing && a.tomb.Alive():
			failing = err.Error()
			logger.Errorf("cannot take up the certificate authority, trying again every %v: %v", refreshEvery, err)
		}
	}
}

// tell tells everybody whom to trust now.
func (a *authority) tell(ctx context.Context) error {
	if err := a.server.SetAuthority(ctx, a.certs.AuthorityPEM()); err != nil {
		return errors.Trace(err)
	}
	if err := a.tellFiles(ctx); err != nil {
		return errors.Trace(err)
	}
	if r, ok := a.certs.Rotation(); ok {
		logger.Infof("the certificate authority is being replaced: both are to be trusted until %s", r.Ends.Format(time.RFC3339))
	} else {
		logger.Infof("the new certificate authority alone is to be trusted from now on")
	}
	a.tomb.Go(func() error {
		a.server.Recycle(ctx, recyclePace)
		return nil
	})
	return nil
}

// tellFiles notes whom to trust in the files of the site's first worker and user.
// Controllers that have joined have no such files.
func (a *authority) tellFiles(ctx context.Context) error {
	ca := a.certs.AuthorityPEM()
	if err := noteAuthority(a.dir.AgentFile(), ca); err != nil && !errors.Is(err, errors.NotFound) {
		return errors.Trace(err)
	}
	store := clientstore.New(a.dir.Client())
	all, err := store.Read()
	if err != nil {
		return errors.Trace(err)
	}
	if known, ok := all.Controllers[a.settings.Name]; !ok || known.CACert == ca {
		return nil
	}
	err = store.Update(ctx, func(all *clientstore.Contents) error {
		known := all.Controllers[a.settings.Name]
		known.CACert = ca
		all.Controllers[a.settings.Name] = known
		return nil
	})
	return errors.Annotate(err, "cannot tell the site's first user whom to trust")
}

// noteAuthority has an agent file name other authorities, if it does not already.
func noteAuthority(path, ca string) error {
	file, err := agentfile.Read(path)
	if err != nil || file.CACert == ca {
		return errors.Trace(err)
	}
	file.CACert = ca
	return errors.Trace(agentfile.Write(path, file))
}

// keepTrust returns what notes in an agent file whom each new connection says to
// trust.
func keepTrust(path string) func(*api.Conn) {
	return func(c *api.Conn) {
		if err := noteAuthority(path, c.CACert()); err != nil {
			logger.Errorf("cannot note in %s whom to trust: the worker will not be able to connect after the replacement of the certificate authority: %v", path, err)
		}
	}
}

// RotateCA begins to replace the certificate authority of the site in the
// directory, which may be served meanwhile, and returns when that will be done. It
// returns an error satisfying errors.AlreadyExists if it is being replaced already,
// and errors.NotFound if there is no site.
func (d Dir) RotateCA(overlap time.Duration) (time.Time, error) {
	if _, err := d.readDir(); err != nil {
		return time.Time{}, errors.Trace(err)
	}
	r, err := tlsfiles.Rotate(string(d), overlap, time.Now())
	return r.Ends, errors.Trace(err)
}

// FinishCA ends a replacement of the certificate authority now. It returns an
// error satisfying errors.NotFound if none is under way.
func (d Dir) FinishCA() error {
	if _, err := d.readDir(); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(tlsfiles.Finish(string(d), time.Now()))
}
