package hostmanager

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// pass is one look at one host. It changes the record's host and progress, and
// does nothing else but call the back end.
type pass struct {
	record  *Record
	host    *metal3v1alpha1.BareMetalHost // the record's
	state   state
	factory provisioner.Factory
	now     time.Time
	// intend is called before anything is done to the machine.
	intend func() error
	// enter asks for a place among those who write images; place is the place in
	// the queue if there is none.
	enter func() (place int, ok bool)
	leave func()
	// checkReady asks the back end whether it is up, because it was not lately.
	checkReady bool

	p        provisioner.Provisioner
	cleared  []string
	handling bool // the state's handler has been reached

	mu     sync.Mutex
	events []Event
}

// publish notes an event; back ends may call it from anywhere.
func (p *pass) publish(reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, Event{Reason: reason, Message: message, Time: p.now})
}

// run makes the pass and writes its outcome into the record.
func (p *pass) run() outcome {
	o := p.look()
	if (o.kind == waiting || o.kind == faulted) && p.overdue() {
		o = failure(p.state.failure, fmt.Sprintf("after %v still waiting for %s: %s", p.state.limit, p.state.reason, o.reason))
	}
	if o.kind == advanced && !CanMove(p.state.name, o.next) {
		// A mistake of ours: the host stays where it is, for people to see.
		logger.Errorf("host %s: no move from %q to %q", p.record.ID, p.state.name, o.next)
		o = outcome{kind: parked, reason: fmt.Sprintf("a mistake in the host manager: there is no way from %q to %q", p.state.name, o.next)}
	}
	p.conclude(o)
	return o
}

// overdue reports whether the host has been at work for too long.
func (p *pass) overdue() bool {
	d := p.record.Progress.Deadline
	return p.state.limit > 0 && !d.IsZero() && p.now.After(d)
}

// look finds out what to do and does it. A back end that panics over what one BMC
// answers must not take the other hosts with it.
func (p *pass) look() (o outcome) {
	defer func() {
		if r := recover(); r != nil {
			logger.Errorf("host %s: panic in its back end: %v\n%s", p.record.ID, r, debug.Stack())
			kind := p.state.failure
			if kind == metal3v1alpha1.NoError {
				kind = metal3v1alpha1.RegistrationError
			}
			o = failure(kind, "the back end broke off by a mistake of its own; the log of the host manager has more")
		}
	}()
	switch s, ok := lookUp(p.host.Status.Provisioning.State); {
	case p.host.Paused() && !p.record.Force:
		return outcome{kind: parked, reason: "in maintenance: nothing is done to the host until that ends"}
	case !ok:
		return outcome{kind: parked, reason: fmt.Sprintf("unknown state %q", p.host.Status.Provisioning.State)}
	case p.now.Before(p.record.ForeignUntil):
		return waitFor(p.record.ForeignUntil.Sub(p.now), "what another host manager has begun to pass")
	default:
		p.state = s
	}
	p.restore()
	if p.host.Deleting() {
		if o, ok := p.remove(); ok {
			return o
		}
	}
	if p.state.name == metal3v1alpha1.StateNone || p.state.name == metal3v1alpha1.StateUnmanaged {
		return p.state.handle(p)
	}
	if o, ok := p.open(); !ok {
		return o
	}
	if !p.state.unregistered {
		if o, ok := p.ensureRegistered(); !ok {
			return o
		}
	}
	p.handling = true
	return p.state.handle(p)
}

// restore takes a status over that came with the record of a new host.
func (p *pass) restore() {
	text, ok := p.host.Metadata.Annotations[metal3v1alpha1.StatusAnnotation]
	if !ok {
		return
	}
	p.clear(metal3v1alpha1.StatusAnnotation)
	var status metal3v1alpha1.BareMetalHostStatus
	if p.host.Status.LastUpdated != nil || json.Unmarshal([]byte(text), &status) != nil {
		return
	}
	if s, ok := lookUp(status.Provisioning.State); ok {
		p.host.Status, p.state = status, s
	}
}

// clear drops an annotation that has been dealt with.
func (p *pass) clear(annotation string) {
	delete(p.host.Metadata.Annotations, annotation)
	p.cleared = append(p.cleared, annotation)
}

// open makes the Provisioner of the pass.
func (p *pass) open() (outcome, bool) {
	backend, err := p.factory(p.host, p.record.Credentials, p.publish)
	if err != nil {
		if p.state.name == metal3v1alpha1.StateDeleting {
			return outcome{kind: removed}, false // nothing that could be told to let go
		}
		return failure(metal3v1alpha1.RegistrationError, err.Error()), false
	}
	p.p = backend
	if checker, ok := backend.(provisioner.ReadyChecker); ok && p.checkReady {
		if up, err := checker.IsReady(); err != nil || !up {
			return waitFor(notReadyWait, "the back end to be up again"), false
		}
	}
	return outcome{}, true
}

// ensureRegistered makes sure that the back end knows the host and can reach it.
func (p *pass) ensureRegistered() (outcome, bool) {
	kind := metal3v1alpha1.RegistrationError
	s := &p.host.Status
	if s.Provisioning.Image.URL != "" || p.state.name == metal3v1alpha1.StateExternallyProvisioned {
		kind = metal3v1alpha1.ProvisionedRegistrationError
	}
	if err := p.record.Credentials.Validate(); err != nil && !(p.state.name == metal3v1alpha1.StateDeprovisioning && p.host.Deleting()) {
		return failure(kind, err.Error()), false
	}
	namespace, name, version := p.host.Metadata.Namespace, p.host.Spec.BMC.CredentialsName, p.record.CredentialsVersion
	mine := metal3v1alpha1.CredentialsStatus{Reference: &metal3v1alpha1.SecretReference{Name: name, Namespace: namespace}, Version: version}
	changed := !s.TriedCredentials.Match(namespace, name, version)
	s.TriedCredentials = mine
	result, err := p.p.ValidateManagementAccess(changed)
	o, ok := p.sort(result, err, kind, "the BMC to be verified")
	if o.kind == waiting && s.ErrorType == kind {
		p.clearError() // it is being tried anew
	}
	if !ok {
		return o, false
	}
	if !s.GoodCredentials.Match(namespace, name, version) {
		s.GoodCredentials = mine
		p.publish("BMCAccessValidated", "Verified access to BMC")
	}
	if s.ErrorType == metal3v1alpha1.RegistrationError {
		p.clearError() // and no other kind: registration proves nothing about those
	}
	return outcome{}, true
}

// sort turns what a method of the back end returned into an outcome; ok says that
// the method is done.
func (p *pass) sort(result provisioner.Result, err error, kind metal3v1alpha1.ErrorType, reason string) (o outcome, ok bool) {
	switch {
	case errors.Is(err, provisioner.ErrNotRegistered):
		p.host.Status.Provisioning.ID = ""
		return waitFor(0, "the back end to know the host again"), false
	case err != nil:
		return fault(err), false
	case result.ErrorMessage != "":
		return failure(kind, result.ErrorMessage), false
	case result.Dirty:
		if t, ok := p.p.(provisioner.ProgressTeller); ok && t.Progress() != "" {
			reason += " (" + t.Progress() + ")"
		}
		return waitFor(result.RequeueAfter, reason), false
	}
	return outcome{}, true
}

// clearError forgets the error, but not how often it happened.
func (p *pass) clearError() {
	s := &p.host.Status
	s.ErrorType, s.ErrorMessage = metal3v1alpha1.NoError, ""
	if s.OperationalStatus != metal3v1alpha1.OperationalStatusDiscovered {
		s.OperationalStatus = metal3v1alpha1.OperationalStatusOK
	}
}

// remove leads a host that is to be removed towards its end. ok is false when the
// handler of its state goes on with it.
func (p *pass) remove() (o outcome, ok bool) {
	failures, reason := p.host.Status.ErrorCount, p.record.Progress.Reason
	switch p.state.name {
	case metal3v1alpha1.StateNone, metal3v1alpha1.StateUnmanaged:
		return outcome{kind: removed}, true
	case metal3v1alpha1.StateDeleting:
		forced := p.record.Force && p.now.Sub(p.record.Progress.Since) > forceLimit
		if failures <= MaxRemovalFailures && !p.overdue() && !forced {
			return outcome{}, false
		}
		p.publish("RemovedWithoutBackend", "The host was removed, but the back end may still know it: "+reason)
		return outcome{kind: removed}, true
	case metal3v1alpha1.StateDeprovisioning:
		if failures > MaxRemovalFailures {
			p.publish("DeprovisioningSkipped", "The host is removed with its image, which could not be: "+reason)
			return advanceTo(metal3v1alpha1.StateDeleting), true
		}
	}
	to := p.state.onDelete
	if p.record.Force {
		to = metal3v1alpha1.StateDeleting
	}
	if to == p.state.name {
		return outcome{}, false
	}
	return advanceTo(to), true
}

// forceLimit is how long a removal by force tries to do it properly.
const forceLimit = 30 * time.Second

// conclude writes an outcome into the record.
func (p *pass) conclude(o outcome) {
	s, pr := &p.host.Status, &p.record.Progress
	if o.kind != faulted {
		pr.Faults = 0
	}
	if o.kind != queued {
		pr.Place = 0
	}
	pr.NextTry = time.Time{}
	pr.Reason = o.reason
	pr.Owner = OwnerManager
	switch o.kind {
	case advanced:
		p.clearError()
		if o.next != p.state.name {
			p.move(o.next)
		}
	case waiting:
		if p.handling { // what was waited for before has nothing to do with the error
			p.clearError()
		}
	case queued:
		pr.Owner = OwnerQueue
		s.OperationalStatus = metal3v1alpha1.OperationalStatusDelayed
	case resting, removed:
		pr.Owner, pr.Reason = "", ""
		p.clearError()
	case parked:
		pr.Owner = OwnerOperator
	case failed:
		s.OperationalStatus, s.ErrorType, s.ErrorMessage = metal3v1alpha1.OperationalStatusError, o.failure, o.reason
		s.ErrorCount++
		p.publish(eventOf(o.failure), o.reason)
		pr.Deadline = time.Time{} // the next try has the whole time again
	case faulted:
		pr.Faults++
	}
	if o.kind == failed || o.kind == parked || o.kind == faulted && pr.Faults >= patience {
		p.leave() // others need not wait for this host
	}
	if o.kind != failed && pr.Deadline.IsZero() && p.state.limit > 0 && (o.kind == waiting || o.kind == faulted) {
		pr.Since, pr.Deadline = p.now, p.now.Add(p.state.limit)
	}
}

// patience is after how many faults in a row a host gives its place among those
// that write images away.
const patience = 3

// move takes the host to another state.
func (p *pass) move(to metal3v1alpha1.ProvisioningState) {
	from := p.state.name
	s := &p.host.Status
	if m := s.OperationHistory.ForState(from); m != nil && m.End.Before(m.Start) {
		m.End = p.now
	}
	if m := s.OperationHistory.ForState(to); m != nil {
		*m = metal3v1alpha1.OperationMetric{Start: p.now}
	}
	s.Provisioning.State = to
	if to == metal3v1alpha1.StateDeprovisioning || to == metal3v1alpha1.StateDeleting {
		s.ErrorCount = 0 // what failed before says nothing about letting go
	}
	next, _ := lookUp(to)
	p.record.Progress = Progress{Owner: OwnerManager, Reason: next.reason, Since: p.now}
	if next.limit > 0 {
		p.record.Progress.Deadline = p.now.Add(next.limit)
	}
	if p.state.slot && !next.slot {
		p.leave()
	}
}

// eventOf returns the name of the event of an error.
func eventOf(t metal3v1alpha1.ErrorType) string {
	switch t {
	case metal3v1alpha1.RegistrationError:
		return "RegistrationError"
	case metal3v1alpha1.ProvisionedRegistrationError:
		return "ProvisionedRegistrationError"
	case metal3v1alpha1.InspectionError:
		return "InspectionError"
	case metal3v1alpha1.PowerManagementError:
		return "PowerManagementError"
	}
	return "ProvisioningError"
}
