// Package keymanager is the facade KeyManager, version 1: the SSH keys that may log in to the
// machines of a model. They are the model's, whoever they are listed for. People
// who may write to the model manage them.
package keymanager

import (
	"context"
	"slices"
	"strings"

	"github.com/juju/errors"
	"golang.org/x/crypto/ssh"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// Backend is what the facade needs from below.
type Backend interface {
	Settings(ctx context.Context) (*config.Config, error)
	Update(ctx context.Context, u config.Update) error
}

// KeyManager is the facade of one connection.
type KeyManager struct{ backend Backend }

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*KeyManager, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Write) {
		return nil, common.ErrPerm
	}
	return &KeyManager{backend{below.Config{State: st}}}, nil
}

// backend adapts state to what the facade needs.
type backend struct{ below.Config }

func (b backend) Update(ctx context.Context, u config.Update) error {
	return b.State.ModelConfig().Update(ctx, u)
}

// key is one line of the setting.
type key struct{ line, fingerprint, comment string }

// parse reads a line; one that is no key is kept as it is, without a
// fingerprint.
func parse(line string) (key, error) {
	public, comment, _, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(rest) > 0 || strings.ContainsAny(line, "\n\r") {
		return key{line: line}, errors.NotValidf("SSH key %.40q (use a line such as \"ssh-ed25519 AAAA... NAME\")", line)
	}
	return key{line, ssh.FingerprintLegacyMD5(public), comment}, nil
}

func (k *KeyManager) keys(ctx context.Context) ([]key, error) {
	settings, err := k.backend.Settings(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var out []key
	for line := range strings.Lines(settings.AuthorizedKeys()) {
		if line = strings.TrimSpace(line); line != "" {
			one, _ := parse(line) // whatever stands there is told
			out = append(out, one)
		}
	}
	return out, nil
}

// ListKeys returns the keys, or their fingerprints, for each user asked about.
func (k *KeyManager) ListKeys(ctx context.Context, args params.ListSSHKeys) (params.StringsResults, error) {
	all, err := k.keys(ctx)
	if err != nil {
		return params.StringsResults{}, errors.Trace(err)
	}
	var texts []string
	for _, one := range all {
		switch {
		case args.Mode:
			texts = append(texts, one.line)
		case one.fingerprint == "":
			texts = append(texts, "Invalid key: "+one.line)
		default:
			texts = append(texts, one.fingerprint+" ("+one.comment+")")
		}
	}
	results := make([]params.StringsResult, len(args.Entities.Entities))
	for i := range results {
		results[i].Result = texts
	}
	return params.StringsResults{Results: results}, nil
}

// AddKeys adds keys.
func (k *KeyManager) AddKeys(ctx context.Context, args params.ModifyUserSSHKeys) (params.ErrorResults, error) {
	return k.change(ctx, args.Keys, func(all []key, line string) ([]key, error) {
		one, err := parse(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(o key) bool { return o.fingerprint == one.fingerprint }) {
			return nil, errors.AlreadyExistsf("SSH key %s", one.fingerprint)
		}
		return append(all, one), nil
	})
}

// DeleteKeys deletes keys, given by their fingerprint or comment.
func (k *KeyManager) DeleteKeys(ctx context.Context, args params.ModifyUserSSHKeys) (params.ErrorResults, error) {
	return k.change(ctx, args.Keys, func(all []key, id string) ([]key, error) {
		kept := slices.DeleteFunc(slices.Clone(all), func(o key) bool {
			return id != "" && (o.fingerprint == id || o.comment == id || o.line == id)
		})
		if len(kept) == len(all) {
			return nil, errors.NotFoundf("SSH key %.80q", id)
		}
		return kept, nil
	})
}

// change changes the keys by one argument after the other, and writes them once.
func (k *KeyManager) change(ctx context.Context, args []string, one func(all []key, arg string) ([]key, error)) (params.ErrorResults, error) {
	all, err := k.keys(ctx)
	if err != nil {
		return params.ErrorResults{}, errors.Trace(err)
	}
	results := make([]params.ErrorResult, len(args))
	for i, arg := range args {
		next, err := one(all, arg)
		if err != nil {
			results[i].Error = common.ServerError(err)
			continue
		}
		all = next
	}
	lines := make([]string, len(all))
	for i, o := range all {
		lines[i] = o.line
	}
	err = k.backend.Update(ctx, config.Update{Set: map[string]any{config.AuthorizedKeys: strings.Join(lines, "\n")}})
	return params.ErrorResults{Results: results}, errors.Trace(err)
}
