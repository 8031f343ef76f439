package common_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
)

// Cases: mixins/LifeGetter
func TestLifeGetter(t *testing.T) {
	s := newThings(t, map[string]*thing{
		"machine-0": {life: life.Alive},
		"machine-1": {life: life.Dying},
		"machine-2": {life: life.Dead},
		"machine-3": {life: life.Dead},
		"machine-4": {findErr: errors.New("cannot read")},
	})
	g := common.NewLifeGetter(common.Entities[common.Lifer](s, "life cycles"), only("machine-0", "machine-1", "machine-2", "machine-4", "machine-9"))
	got, err := g.Life(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-3", "machine-4", "machine-9", "rubbish", "machine-0"))
	if err != nil {
		t.Fatal(err)
	}
	var lives []string
	for _, r := range got.Results {
		lives = append(lives, r.Life+text(r.Error))
	}
	equal(t, "Life", lives, []string{"alive", "dying", "dead", denied, "cannot read", "machine 9 not found [not found]", denied, "alive"})
	if s.searches != 1 {
		t.Errorf("Life of 8 entities took %d searches, want 1", s.searches)
	}
}

// Cases: mixins/DeadEnsurer
func TestDeadEnsurer(t *testing.T) {
	s := newThings(t, map[string]*thing{"machine-0": {}, "machine-1": {err: errors.New("is needed")}, "machine-2": {}})
	d := common.NewDeadEnsurer(common.Entities[common.Deadener](s, "ensuring death"), only("machine-0", "machine-1", "machine-9"))
	got, err := d.EnsureDead(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-9"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "EnsureDead", texts(got.Results), []string{"", "is needed", denied, "machine 9 not found [not found]"})
}

func TestDeadEnsurerStopsAtWhatIsNoTag(t *testing.T) {
	s := newThings(t, map[string]*thing{"machine-0": {}, "machine-1": {}})
	d := common.NewDeadEnsurer(common.Entities[common.Deadener](s, "ensuring death"), common.AuthAlways())
	_, err := d.EnsureDead(t.Context(), entities("machine-0", "garbage", "machine-1"))
	if err == nil || err.Error() != `"garbage" is not a valid tag` {
		t.Errorf("EnsureDead = %v, want the text that is no tag", err)
	}
	if len(s.byTag["machine-0"].calls) != 1 || len(s.byTag["machine-1"].calls) != 0 {
		t.Error("want what stands before the bad tag done, and nothing after")
	}
}

// Cases: mixins/Remover
func TestRemover(t *testing.T) {
	all := func() map[string]*thing {
		return map[string]*thing{
			"machine-0": {life: life.Alive},
			"machine-1": {life: life.Dead},
			"machine-2": {life: life.Dying, err: errors.New("cannot remove machine 2: machine is not dead")},
			"machine-3": {life: life.Dead},
		}
	}
	args := entities("machine-0", "machine-1", "machine-2", "machine-3", "machine-9")
	want := []string{`cannot remove entity "machine-0": still alive`, "", "cannot remove machine 2: machine is not dead", denied, "machine 9 not found [not found]"}
	for _, ensure := range []bool{false, true} {
		s := newThings(t, all())
		r := common.NewRemover(common.Entities[common.Removable](s, "removal"), ensure, only("machine-0", "machine-1", "machine-2", "machine-9"))
		got, err := r.Remove(t.Context(), args)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "Remove", texts(got.Results), want)
		if called := slices.Contains(s.byTag["machine-1"].calls, "EnsureDead"); called != ensure {
			t.Errorf("EnsureDead called: %v, want %v", called, ensure)
		}
	}
}

func TestEntityWithoutTheCapability(t *testing.T) {
	s := newThings(t, map[string]*thing{"unit-mysql-0": {}})
	type flier interface{ Fly() }
	get := common.Entities[flier](s, "removal")
	var got string
	err := common.Bulk[flier]{Get: get, Can: common.AuthAlways()}.Do(t.Context(), 1, func(int) string { return "unit-mysql-0" },
		func(int, flier) error { return nil }, func(_ int, e *params.Error) { got = text(e) })
	if want := `entity "unit-mysql-0" does not support removal`; err != nil || got != want {
		t.Errorf("error = %q, %v, want %q", got, err, want)
	}
}

func statusArgs(tags ...string) params.SetStatus {
	var a params.SetStatus
	for _, tag := range tags {
		a.Entities = append(a.Entities, params.EntityStatusArgs{Tag: tag, Status: "started", Info: "well", Data: map[string]any{"k": "v"}})
	}
	return a
}

// Cases: mixins/StatusSetter
func TestStatusSetter(t *testing.T) {
	s := newThings(t, map[string]*thing{
		"machine-0": {}, "machine-1": {}, "machine-2": {err: errors.New("cannot set status")}, "application-mysql": {},
	})
	set := common.NewStatusSetter(common.Entities[common.StatusHolder](s, "setting status"), only("machine-0", "machine-2", "machine-9", "application-mysql"))
	got, err := set.SetStatus(t.Context(), statusArgs("machine-0", "machine-1", "machine-2", "machine-9", "application-mysql", "not a tag"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "SetStatus", texts(got.Results), []string{"", denied, "cannot set status", "machine 9 not found [not found]", denied, `"not a tag" is not a valid tag`})
	m := s.byTag["machine-0"].status
	if m.Status != status.Started || m.Message != "well" || m.Data["k"] != "v" || m.Since.IsZero() {
		t.Errorf("status = %+v, want what was set, with the time", m)
	}
}

func TestStatusSetterUpdates(t *testing.T) {
	s := newThings(t, map[string]*thing{
		"machine-0": {status: status.Info{Status: status.Error, Message: "broken"}},
		"machine-1": {err: errors.New("machine 1 is not in an error state")},
	})
	set := common.NewStatusSetter(common.Entities[common.StatusHolder](s, "setting status"), only("machine-0", "machine-1", "machine-9"))
	got, err := set.UpdateStatus(t.Context(), statusArgs("machine-0", "machine-1", "machine-2", "machine-9", "not a tag"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "UpdateStatus", texts(got.Results), []string{"", "machine 1 is not in an error state", denied, "machine 9 not found [not found]", denied})
	if m := s.byTag["machine-0"]; m.merged["k"] != "v" || m.status.Status != status.Error || m.status.Message != "broken" {
		t.Errorf("entity = %+v, want the data merged and the status kept", m)
	}
}

// Cases: mixins/StatusGetter
func TestStatusGetter(t *testing.T) {
	s := newThings(t, map[string]*thing{"machine-0": {status: status.Info{Status: status.Pending}}, "machine-1": {}})
	g := common.NewStatusGetter(common.Entities[common.Statuser](s, "getting status"), only("machine-0", "machine-9"))
	got, err := g.Status(t.Context(), entities("machine-0", "machine-1", "machine-9", "not a tag"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range got.Results {
		out = append(out, r.Status+text(r.Error))
	}
	equal(t, "Status", out, []string{"pending", denied, "machine 9 not found [not found]", `"not a tag" is not a valid tag`})
	if r := got.Results[0]; r.Data == nil || r.Since != nil {
		t.Errorf("status = %+v, want data {} and no time", r)
	}
	if got.Results[1].Data != nil {
		t.Error("data beside an error, want null")
	}
}

// Cases: mixins/InstanceIdGetter
func TestInstanceIdGetter(t *testing.T) {
	s := newThings(t, map[string]*thing{"machine-0": {instance: "i-0"}, "machine-1": {err: errors.NotProvisionedf("machine 1")}, "machine-2": {}})
	g := common.NewInstanceIdGetter(common.Entities[common.InstanceIder](s, "instances"), only("machine-0", "machine-1", "machine-9"))
	got, err := g.InstanceId(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-9", "x"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range got.Results {
		out = append(out, r.Result+text(r.Error))
	}
	equal(t, "InstanceId", out, []string{"i-0", "machine 1 not provisioned [not provisioned]", denied, "machine 9 not found [not found]", denied})
}

// Cases: mixins/PasswordChanger
func TestPasswordChanger(t *testing.T) {
	s := newThings(t, map[string]*thing{"machine-0": {}, "machine-1": {err: errors.New("too short")}, "machine-2": {}})
	c := common.NewPasswordChanger(common.Entities[common.PasswordSetter](s, "passwords"), only("machine-0", "machine-1", "machine-9"))
	got, err := c.SetPasswords(t.Context(), params.EntityPasswords{Changes: []params.EntityPassword{
		{Tag: "machine-0", Password: "a"}, {Tag: "machine-1", Password: "b"}, {Tag: "machine-2", Password: "c"},
		{Tag: "machine-9", Password: "d"}, {Tag: "x", Password: "e"}, {Tag: "machine-0", Password: "f"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "SetPasswords", texts(got.Results), []string{"", "too short", denied, "machine 9 not found [not found]", denied, ""})
	if s.byTag["machine-0"].password != "f" || s.byTag["machine-2"].password != "" {
		t.Error("want the last allowed password set, and no other")
	}
}

// Cases: mixins/RuleThatFails
func TestAccessRuleThatFails(t *testing.T) {
	s := newThings(t, nil)
	life := common.NewLifeGetter(common.Entities[common.Lifer](s, ""), broken)
	dead := common.NewDeadEnsurer(common.Entities[common.Deadener](s, ""), broken)
	remove := common.NewRemover(common.Entities[common.Removable](s, ""), false, broken)
	pass := common.NewPasswordChanger(common.Entities[common.PasswordSetter](s, ""), broken)
	calls := map[string]func(tags ...string) (int, error){
		"Life": func(tags ...string) (int, error) {
			r, err := life.Life(t.Context(), entities(tags...))
			return len(r.Results), err
		},
		"EnsureDead": func(tags ...string) (int, error) {
			r, err := dead.EnsureDead(t.Context(), entities(tags...))
			return len(r.Results), err
		},
		"Remove": func(tags ...string) (int, error) {
			r, err := remove.Remove(t.Context(), entities(tags...))
			return len(r.Results), err
		},
		"SetPasswords": func(tags ...string) (int, error) {
			args := params.EntityPasswords{}
			for _, tag := range tags {
				args.Changes = append(args.Changes, params.EntityPassword{Tag: tag})
			}
			r, err := pass.SetPasswords(t.Context(), args)
			return len(r.Results), err
		},
	}
	for name, call := range calls {
		if _, err := call("machine-0"); err == nil || !strings.Contains(err.Error(), "splat") {
			t.Errorf("%s with a rule that fails = %v, want splat", name, err)
		}
		if n, err := call(); err != nil || n != 0 {
			t.Errorf("%s of nothing = %d results, %v, want none and no error", name, n, err)
		}
	}
}

func TestAuthMachines(t *testing.T) {
	tests := []struct {
		name    string
		auth    auth
		allowed []string
		refused []string
	}{
		{"agent", auth{tag: "machine-1"},
			[]string{"machine-1", "machine-1-lxd-99"},
			[]string{"machine-0", "machine-0-lxd-99", "machine-1-lxd-99-lxd-100", "machine-42", "unit-foo-0", "application-bar", "user-bob"}},
		{"manager", auth{tag: "machine-0", manager: true},
			[]string{"machine-0", "machine-42", "machine-0-lxd-1"},
			[]string{"machine-1-lxd-0", "machine-0-lxd-1-lxd-0", "unit-foo-0", "user-bob"}},
		{"manager without a machine", auth{manager: true},
			[]string{"machine-0", "machine-42"},
			[]string{"machine-0-lxd-99", "unit-foo-0"}},
		{"person", auth{tag: "user-bob"}, nil, []string{"machine-0", "user-bob", "machine-0-lxd-0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			can, err := common.AuthMachines(test.auth)()
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range test.allowed {
				if !can(auth{tag: text}.AuthTag()) {
					t.Errorf("%s is refused, want allowed", text)
				}
			}
			for _, text := range test.refused {
				if can(auth{tag: text}.AuthTag()) {
					t.Errorf("%s is allowed, want refused", text)
				}
			}
		})
	}
}
