package provisioner

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/juju/errors"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/params"
)

// startTimeout bounds one attempt of a provider at starting an instance.
const startTimeout = 30 * time.Minute

// place is a machine's place in the queue. It is void when the machine has
// entered another phase since.
type place struct {
	m    *machine
	turn int
}

// started is an instance that is to be recorded.
type started struct {
	m        *machine
	instance environs.Instance
	nonce    string
	adopted  bool                   // an earlier attempt started it
	network  []params.NetworkConfig // that it was given
}

// want brings a machine one step nearer to its start, unless it is on its way.
func (t *task) want(m *machine) {
	if m.phase != idle {
		return
	}
	if m.clear {
		t.enqueue(m)
		return
	}
	m.enter(checking)
	turn := m.turn
	t.lister.ask(func(found inventory, err error) {
		if m.turn == turn {
			t.checked(m, found[m.id], err)
		}
	})
}

// checked goes on with a machine when it is known what earlier attempts at
// starting it have left. A sound instance is recorded, others are stopped.
func (t *task) checked(m *machine, left []environs.Instance, err error) {
	switch {
	case err != nil:
		t.rest(m, resting, "cannot list the provider's instances", err, func() {
			m.enter(idle)
			t.again(m)
		})
	case len(left) == 0:
		m.clear = true
		t.enqueue(m)
	case len(left) == 1 && adoptable(left[0]) && m.failures < 2:
		logger.Infof("machine %s: recording instance %s, which an earlier attempt started", m.id, left[0].ID)
		m.enter(recording)
		t.records = append(t.records, started{m: m, instance: left[0], nonce: left[0].Nonce, adopted: true})
	default:
		m.enter(clearing)
		t.stops = append(t.stops, ended{m: m, ids: instanceIDs(left)})
	}
}

// adoptable reports whether an instance that an earlier attempt started can be
// recorded as it is.
func adoptable(i environs.Instance) bool {
	return i.Nonce != "" && i.Status != status.Error && i.Status != status.ProvisioningError && i.Status != status.Stopped
}

// enqueue puts a machine last in the queue.
func (t *task) enqueue(m *machine) {
	m.enter(queued)
	t.queue = append(t.queue, place{m: m, turn: m.turn})
}

// next takes the machine out of the queue whose turn it is, or returns nil.
func (t *task) next() *machine {
	for len(t.queue) > 0 {
		p := t.queue[0]
		t.queue[0] = place{}
		t.queue = t.queue[1:]
		if p.m.turn == p.turn {
			return p.m
		}
	}
	t.queue = nil
	return nil
}

// dispatch starts as many machines as may be started at once.
func (t *task) dispatch() {
	var batch []attempt
	for t.running < t.settings.parallel {
		m := t.next()
		if m == nil {
			break
		}
		m.enter(starting)
		ctx, cancel := context.WithTimeout(t.tomb.Context(nil), startTimeout)
		m.cancel = cancel
		t.running++
		t.reporter.report(m.id, status.Allocating, "starting", nil)
		batch = append(batch, attempt{m: m, id: m.id, ctx: ctx})
	}
	if len(batch) > 0 {
		t.tomb.Go(func() error {
			t.attempt(batch)
			return nil
		})
	}
	if len(t.queue) > 0 && !t.showing {
		t.showing = true
		t.later(time.Second, func() {
			t.showing = false
			t.showPlaces()
		})
	}
}

// showPlaces has the statuses of waiting machines say how many are before them.
// A place is shown again when it has halved, so that a long queue costs each
// machine a few statuses only.
func (t *task) showPlaces() {
	waiting := slices.DeleteFunc(slices.Clone(t.queue), func(p place) bool { return p.m.turn != p.turn })
	for i, p := range waiting {
		if n := i + 1; p.m.shown == 0 || n <= p.m.shown/2 {
			p.m.shown = n
			t.reporter.report(p.m.id, status.Pending, fmt.Sprintf("waiting to be started: number %d of %d in the queue", n, len(waiting)), nil)
		}
	}
}

// attempt is one machine's part in a batch that is being started. It is used
// outside of the loop; of its machine only the pointer is passed on.
type attempt struct {
	m   *machine
	id  string
	ctx context.Context // ends this machine's start and no other; see machine.cancel

	info     params.ProvisioningInfo
	password string
	nonce    string
	network  []params.NetworkConfig // that a container was given; none means that the provider decides
}

// attempt starts the machines of a batch. What they have in common is asked once
// for all; each is then started by itself.
func (t *task) attempt(batch []attempt) {
	ctx, cancel := context.WithTimeout(t.tomb.Context(nil), callTimeout)
	defer cancel()
	agent, err := t.agentConfig(ctx)
	if err != nil {
		for _, a := range batch {
			t.report(a, environs.StartInstanceResult{}, ofController(errors.Annotate(err, "cannot ask the controller")))
		}
		return
	}
	for _, a := range t.allocate(ctx, t.prepare(ctx, batch)) {
		t.tomb.Go(func() error {
			result, err := t.startOne(a, agent)
			t.report(a, result, err)
			return nil
		})
	}
}

// report tells the loop how an attempt ended.
func (t *task) report(a attempt, result environs.StartInstanceResult, err error) {
	select {
	case t.events <- func() { t.startEnded(a, result, err) }:
	case <-t.tomb.Dying():
	}
}

// errController says that a start came to nothing because of the controller, which
// is not held against the machine.
const errController = errors.ConstError("the controller failed")

func ofController(err error) error { return errors.WithType(err, errController) }

// agentConfig returns what every agent is told. It is asked for each batch,
// since addresses change.
func (t *task) agentConfig(ctx context.Context) (environs.InstanceConfig, error) {
	addresses, err := t.cfg.api.APIAddresses(ctx)
	if err != nil {
		return environs.InstanceConfig{}, errors.Trace(err)
	}
	ca, err := t.cfg.api.CACert(ctx)
	if err != nil {
		return environs.InstanceConfig{}, errors.Trace(err)
	}
	c := environs.InstanceConfig{
		APIAddresses: addresses, CACert: ca,
		ModelUUID: t.cfg.owner.ModelUUID, ControllerUUID: t.cfg.owner.ControllerUUID,
	}
	c.Configure(t.cfg.model())
	c.AgentBinaries, err = t.agentBinaries(ctx)
	return c, errors.Trace(err)
}

// agentBinaries returns the packages of the agent that the controller keeps. None
// is no error: many machines have their agent from elsewhere, and a provider that
// needs one says so.
func (t *task) agentBinaries(ctx context.Context) ([]environs.AgentBinary, error) {
	tools, err := t.cfg.api.FindTools(ctx, params.FindToolsParams{Major: -1, Minor: -1})
	if err != nil && !errors.Is(err, errors.NotFound) {
		return nil, errors.Trace(err)
	}
	var out []environs.AgentBinary
	for _, b := range tools {
		version, err := binaries.Parse(b.Version)
		if err != nil {
			logger.Warningf("passing over an agent binary: %v", err)
			continue
		}
		out = append(out, environs.AgentBinary{Version: version, URL: b.URL, SHA256: b.SHA256, Size: b.Size})
	}
	return out, nil
}

// newest returns those of the packages that are for a series, in the newest
// version that there is for it. An architecture of "" means any.
func newest(all []environs.AgentBinary, series, arch string) []environs.AgentBinary {
	fits := slices.DeleteFunc(slices.Clone(all), func(b environs.AgentBinary) bool {
		return b.Version.Series != series || arch != "" && b.Version.Arch != arch
	})
	var best binaries.Number
	for _, b := range fits {
		if b.Version.Number.Compare(best) > 0 {
			best = b.Version.Number
		}
	}
	return slices.DeleteFunc(fits, func(b environs.AgentBinary) bool { return b.Version.Number != best })
}

// prepare asks what each machine is to be like, and sets the password that its
// agent will log in with. It returns those machines for which all went well,
// and reports the others.
func (t *task) prepare(ctx context.Context, batch []attempt) []attempt {
	ids := make([]string, len(batch))
	for i, a := range batch {
		ids[i] = a.id
	}
	infos, err := t.cfg.api.ProvisioningInfo(ctx, ids...)
	var good []attempt
	var passwords []apiprovisioner.Password
	for i, a := range batch {
		switch {
		case err != nil:
			t.report(a, environs.StartInstanceResult{}, ofController(err))
			continue
		case infos[i].Err != nil:
			// What the controller says against the request itself will not
			// change by asking again.
			t.report(a, environs.StartInstanceResult{}, errors.WithType(infos[i].Err, environs.ErrPermanent))
			continue
		}
		a.info = infos[i].Value
		a.password = newPassword()
		a.nonce = "slipway:" + uuid.NewString()
		good = append(good, a)
		passwords = append(passwords, apiprovisioner.Password{ID: a.id, Password: params.Secret(a.password)})
	}
	if len(good) == 0 {
		return nil
	}
	errs, err := t.cfg.api.SetPasswords(ctx, passwords...)
	var set []attempt
	for i, a := range good {
		failure := err
		if failure == nil {
			failure = errs[i]
		}
		if failure != nil {
			t.report(a, environs.StartInstanceResult{}, ofController(errors.Annotate(failure, "cannot set the agent's password")))
			continue
		}
		set = append(set, a)
	}
	return set
}

// newPassword returns a password of 24 characters, from 18 random bytes.
func newPassword() string {
	b := make([]byte, 18)
	_, _ = rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}

// startOne has the provider start a machine's instance.
func (t *task) startOne(a attempt, agent environs.InstanceConfig) (environs.StartInstanceResult, error) {
	b, err := base.FromSeries(a.info.Series)
	if err != nil {
		return environs.StartInstanceResult{}, errors.WithType(err, environs.ErrPermanent)
	}
	agent.MachineID, agent.Nonce, agent.Password = a.id, a.nonce, a.password
	for _, j := range a.info.Jobs {
		agent.Jobs = append(agent.Jobs, job.Job(j))
	}
	arch := ""
	if a.info.Constraints.Arch != nil {
		arch = *a.info.Constraints.Arch
	}
	agent.AgentBinaries = newest(agent.AgentBinaries, a.info.Series, arch)
	owner := t.cfg.owner
	owner.MachineID = a.id
	return t.cfg.broker.StartInstance(a.ctx, environs.StartInstanceParams{
		Owner:             owner,
		InstanceConfig:    &agent,
		Base:              b,
		Constraints:       a.info.Constraints,
		Placement:         a.info.Placement,
		DistributionGroup: t.group(a.id),
		Tags:              a.info.Tags,
		SubnetsToZones:    a.info.SubnetsToZones,
		EndpointBindings:  a.info.EndpointBindings,
		Volumes:           volumeParams(a.info.Volumes),
		Network:           interfaces(a.network),
		Progress:          t.progress(a.m),
	})
}

// group returns the function that asks which instances a machine is to be kept
// apart from.
func (t *task) group(id string) func(context.Context) ([]instance.ID, error) {
	return func(ctx context.Context) ([]instance.ID, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		groups, err := t.cfg.api.DistributionGroup(ctx, id)
		if err != nil {
			return nil, errors.Trace(err)
		}
		return groups[0].Value, groups[0].Err
	}
}

// progress returns the function that shows what a provider says of a start
// under way.
func (t *task) progress(m *machine) func(status.Info) {
	return func(s status.Info) {
		select {
		case t.events <- func() {
			if m.phase == starting {
				t.reporter.report(m.id, s.Status, s.Message, s.Data)
			}
		}:
		case <-t.tomb.Dying():
		}
	}
}

// startEnded goes on with a machine whose start has ended.
func (t *task) startEnded(a attempt, result environs.StartInstanceResult, err error) {
	m := a.m
	m.cancel()
	m.cancel = nil
	if err == nil {
		m.enter(recording)
		t.records = append(t.records, started{m: m, instance: result.Instance, nonce: a.nonce, network: a.network})
		return
	}
	t.running--
	t.failed(m, err)
}

// giveUp ends a start under way, if there is one. Its end is reported as any
// other's is.
func (t *task) giveUp(m *machine) {
	if m.cancel != nil {
		m.cancel()
	}
}

// failed decides what to do about a machine that was not started: nothing if it
// need not be, another try after a pause, or an error that waits for a person, which
// a failure of the controller never is.
func (t *task) failed(m *machine, err error) {
	m.clear = false // the attempt may have left something
	m.enter(idle)
	switch {
	case !m.wanted():
		t.chase(m.id)
		t.decide(m)
	case environs.ClassOf(err) == environs.Permanent:
		t.blame(m, err.Error())
	case m.failures >= t.settings.retries && !errors.Is(err, errController):
		t.blame(m, fmt.Sprintf("%v; gave up after %d attempts", err, m.failures+1))
	default:
		t.rest(m, resting, "cannot start instance", err, func() {
			m.enter(idle)
			t.again(m)
		})
	}
}

// blame puts a machine in error, which it stays in until somebody asks for
// another try.
func (t *task) blame(m *machine, message string) {
	logger.Errorf("machine %s cannot be started: %s", m.id, message)
	t.reporter.report(m.id, status.ProvisioningError, message, map[string]any{status.DataTries: m.failures + 1})
	m.failures = 0
	m.pending = false
}

// record begins to record the instances that were started, one call at a time.
func (t *task) record() {
	if t.sending || len(t.records) == 0 {
		return
	}
	n := min(len(t.records), bulk)
	batch := t.records[:n:n]
	t.records = t.records[n:]
	t.sending = true
	t.spawn(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		t.recall(ctx, batch)
		set := make([]apiprovisioner.Instance, len(batch))
		for i, s := range batch {
			set[i] = apiprovisioner.Instance{
				MachineID: s.m.id, ID: s.instance.ID, Nonce: s.nonce,
				Hardware: &s.instance.Hardware, Network: networkConfig(s), Volumes: volumes(s.instance),
			}
		}
		errs, err := t.cfg.api.SetInstanceInfo(ctx, set...)
		return func() {
			t.sending = false
			t.recorded(batch, errs, err)
		}
	})
}

// recorded goes on with machines whose instances have been recorded or not. One
// that could not be is found by the next inventory, and recorded or stopped.
func (t *task) recorded(batch []started, errs []error, err error) {
	for i, s := range batch {
		failure := err
		if failure == nil {
			failure = errs[i]
		}
		if !s.adopted {
			t.running--
		}
		if failure != nil {
			logger.Warningf("cannot record instance %s of machine %s: %v", s.instance.ID, s.m.id, failure)
			t.unrecorded(s.m, failure)
			continue
		}
		s.m.instance = s.instance.ID
		s.m.failures = 0
		s.m.enter(idle)
		t.begun(s.m, s.instance)
		if s.m.over() {
			t.decide(s.m)
		}
	}
}

// unrecorded goes on with a machine whose instance could not be recorded. Why is
// not judged by the error: the machine is read again, and what is true of it
// then decides.
func (t *task) unrecorded(m *machine, err error) {
	m.clear = false
	m.enter(idle)
	if m.over() {
		t.decide(m)
		return
	}
	t.rest(m, resting, "cannot record the instance", err, func() {
		m.enter(idle)
		t.again(m)
	})
	t.again(m)
}

// volumeParams returns volumes to be made as a provider takes them.
func volumeParams(wanted []params.VolumeParams) []environs.VolumeParams {
	var out []environs.VolumeParams
	for _, v := range wanted {
		id, _ := strings.CutPrefix(v.VolumeTag, "volume-")
		out = append(out, environs.VolumeParams{ID: id, Size: v.Size, Provider: v.Provider, Attributes: v.Attributes})
	}
	return out
}

// volumes returns the volumes of an instance as the controller takes them.
func volumes(i environs.Instance) []apiprovisioner.Volume {
	var out []apiprovisioner.Volume
	for _, v := range i.Volumes {
		out = append(out, apiprovisioner.Volume(v))
	}
	return out
}
