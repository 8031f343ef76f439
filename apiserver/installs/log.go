package installs

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/install"
)

// logWait is how long a call waits for more lines.
const logWait = 30 * time.Second

// Log returns lines of the log of one boot of a host's installer. If asked to, it waits
// until there are more, the boot has ended, or another one has begun.
func (i *Installs) Log(ctx context.Context, args params.InstallLogQuery) (params.InstallLog, error) {
	if !superuser(i.conn.Auth) {
		return params.InstallLog{}, common.ErrPerm
	}
	if args.After < 0 || args.Boot < 0 {
		return params.InstallLog{}, errors.NotValidf("log after line %d of boot %d", args.After, args.Boot)
	}
	h, err := i.hosts.Get(ctx, args.Name)
	if err != nil {
		return params.InstallLog{}, errors.Trace(err)
	}
	uid := h.Record.Metadata.UID
	out, err := i.lines(ctx, uid, args)
	if err != nil || !args.Wait || len(out.Lines) > 0 || out.Ended {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, logWait)
	defer cancel()
	order, log := i.docs.WatchDoc(state.InstallsCollection, uid), i.installs.WatchLog(uid, out.Boot)
	defer func() {
		order.Kill()
		log.Kill()
		_, _ = order.Wait(), log.Wait() // they only ended because we asked
	}()
	for len(out.Lines) == 0 && !out.Ended {
		var ok bool
		select {
		case _, ok = <-order.Changes():
		case _, ok = <-log.Changes():
		case <-ctx.Done():
			return out, nil
		}
		if !ok {
			return out, nil // the server ends
		}
		now, err := i.lines(ctx, uid, args)
		if err != nil {
			if ctx.Err() != nil {
				return out, nil
			}
			return out, err
		}
		if now.Boot != out.Boot { // the newest was asked for, and is another one now
			return now, nil
		}
		out = now
	}
	return out, nil
}

// lines returns what there is.
func (i *Installs) lines(ctx context.Context, uid string, args params.InstallLogQuery) (params.InstallLog, error) {
	out := params.InstallLog{Next: args.After, Ended: true}
	found, err := i.installs.Get(ctx, []string{uid}, false)
	if err != nil || len(found) == 0 || len(found[0].Boots) == 0 {
		out.Ended = args.Boot != 0 // the first boot may come
		return out, errors.Trace(err)
	}
	boots := found[0].Boots
	out.Boot, out.Newest = args.Boot, boots[len(boots)-1].Number
	if out.Boot == 0 {
		out.Boot = out.Newest
	}
	var boot *install.Boot
	for n := range boots {
		if boots[n].Number == out.Boot {
			boot = &boots[n]
		}
	}
	if boot == nil {
		return out, errors.NewNotFound(nil, "boot of the installer that is remembered; see \"slipway show-host\" for those that are")
	}
	l, err := i.installs.Log(ctx, uid, out.Boot)
	if err != nil {
		return out, errors.Trace(err)
	}
	out.Lines, out.Next = l.After(args.After), max(args.After, l.Len())
	out.Ended, out.Message = !boot.Ended.IsZero(), boot.Message
	return out, nil
}
