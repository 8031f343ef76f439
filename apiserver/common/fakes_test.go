package common_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/entity"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// thing is an entity with every capability. Its errors are returned by the
// methods they name.
type thing struct {
	tag      tag.Tag
	life     life.Value
	status   status.Info
	instance instance.ID
	agent    string
	password string
	merged   map[string]any
	err      error // of every method that can fail
	findErr  error // of finding it
	calls    []string
}

func (e *thing) Tag() tag.Tag                     { return e.tag }
func (e *thing) Life() life.Value                 { return e.life }
func (e *thing) Status() status.Info              { return e.status }
func (e *thing) AgentVersion() string             { return e.agent }
func (e *thing) InstanceId() (instance.ID, error) { return e.instance, e.err }
func (e *thing) EnsureDead(context.Context) error {
	e.calls = append(e.calls, "EnsureDead")
	return e.err
}
func (e *thing) Remove(context.Context) error { e.calls = append(e.calls, "Remove"); return e.err }
func (e *thing) SetPassword(_ context.Context, p string) error {
	if e.err == nil {
		e.password = p
	}
	return e.err
}

func (e *thing) SetStatus(_ context.Context, s status.Info) error {
	if e.err == nil {
		e.status = s
	}
	return e.err
}

func (e *thing) MergeStatusData(_ context.Context, data map[string]any) error {
	if e.err == nil {
		e.merged = data
	}
	return e.err
}

// things are found by their tags. It counts searches.
type things struct {
	byTag    map[string]*thing
	searches int
}

func newThings(t *testing.T, all map[string]*thing) *things {
	t.Helper()
	for text, e := range all {
		parsed, err := tag.ParseTag(text)
		if err != nil {
			t.Fatal(err)
		}
		e.tag = parsed
	}
	return &things{byTag: all}
}

func (s *things) FindEntities(_ context.Context, tags []tag.Tag) ([]entity.Found, error) {
	s.searches++
	out := make([]entity.Found, len(tags))
	for i, t := range tags {
		e, ok := s.byTag[t.String()]
		switch {
		case !ok:
			out[i].Err = errors.NotFoundf("%s %s", t.Kind(), t.Id())
		case e.findErr != nil:
			out[i].Err = e.findErr
		default:
			out[i].Entity = e
		}
	}
	return out, nil
}

// only lets the entities with these tags pass.
func only(texts ...string) common.GetAuthFunc {
	return func() (common.AuthFunc, error) {
		return func(t tag.Tag) bool {
			for _, text := range texts {
				if t.String() == text {
					return true
				}
			}
			return false
		}, nil
	}
}

// broken is an access rule that cannot be told.
func broken() (common.AuthFunc, error) { return nil, errors.New("splat") }

func entities(tags ...string) params.Entities {
	var e params.Entities
	for _, t := range tags {
		e.Entities = append(e.Entities, params.Entity{Tag: t})
	}
	return e
}

// denied, missing and the like are what the errors of results look like.
const denied = "permission denied [unauthorized access]"

func text(e *params.Error) string {
	switch {
	case e == nil:
		return ""
	case e.Code == "":
		return e.Message
	}
	return e.Message + " [" + e.Code + "]"
}

func texts(results []params.ErrorResult) []string {
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = text(r.Error)
	}
	return out
}

// equal compares lists of texts.
func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s = %q, want %q", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: result %d is %q, want %q", what, i, got[i], want[i])
		}
	}
}

// auth is an Authorizer of plain values.
type auth struct {
	tag        string
	manager    bool
	model      access.Model
	controller access.Controller
}

func (a auth) AuthTag() tag.Tag {
	t, err := tag.ParseTag(a.tag)
	if err != nil {
		return nil
	}
	return t
}
func (a auth) AuthMachineAgent() bool {
	t := a.AuthTag()
	return t != nil && t.Kind() == tag.MachineKind
}
func (a auth) AuthModelManager() bool              { return a.manager }
func (a auth) ModelAccess() access.Model           { return a.model }
func (a auth) ControllerAccess() access.Controller { return a.controller }
