package worker

import (
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/watcher"
)

var logger = loggo.GetLogger("slipway.worker")

// Worker is something that lives until it is killed or fails; a watcher is one.
type Worker = watcher.Watcher

// ErrDone is what a worker returns from Wait, or its start function returns,
// when its job has ended for good: it is not started again.
const ErrDone = errors.ConstError("the worker's job is done")

// ErrRestart is what a worker returns when the program is to be started anew,
// from its file, which has become another one.
const ErrRestart = errors.ConstError("the program is to be started anew")

// healthy is how long a worker has to live before its past failures are
// forgotten.
const healthy = 5 * time.Second

// Runner keeps named workers running: one that fails is started again after a
// pause that grows with its failures in a row. The failure of one never touches
// another. A Runner is itself a worker.
type Runner struct {
	tomb    tomb.Tomb
	backoff Backoff

	mu   sync.Mutex
	jobs map[string]*job
}

// job is one named worker, from Start to Stop.
type job struct {
	name     string
	start    func() (Worker, error)
	stop     chan struct{} // closed by Stop
	stopOnce sync.Once
	done     chan struct{} // closed when the job has ended
}

// NewRunner returns a runner without workers.
func NewRunner(b Backoff) *Runner {
	r := &Runner{backoff: b, jobs: make(map[string]*job)}
	r.tomb.Go(func() error {
		<-r.tomb.Dying()
		return nil
	})
	return r
}

// Start has a worker started under a name, and started again when it fails. It
// returns an error satisfying errors.AlreadyExists if the name is taken, and
// one when the runner is stopping. The start function may block; it is called
// again after it fails.
func (r *Runner) Start(name string, start func() (Worker, error)) error {
	j := &job{name: name, start: start, stop: make(chan struct{}), done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.tomb.Alive() {
		return errors.New("the runner is stopping")
	}
	if _, ok := r.jobs[name]; ok {
		return errors.AlreadyExistsf("worker %q", name)
	}
	r.jobs[name] = j
	r.tomb.Go(func() error {
		r.run(j)
		return nil
	})
	return nil
}

// Stop ends the named worker and waits for its end. A name that is not there is
// no error.
func (r *Runner) Stop(name string) {
	r.mu.Lock()
	j, ok := r.jobs[name]
	r.mu.Unlock()
	if !ok {
		return
	}
	j.stopOnce.Do(func() { close(j.stop) })
	<-j.done
}

// Names returns the names of the workers that are kept running.
func (r *Runner) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, len(r.jobs))
	for name := range r.jobs {
		names = append(names, name)
	}
	return names
}

// Kill asks all workers to stop.
func (r *Runner) Kill() { r.tomb.Kill(nil) }

// Wait returns when all workers have stopped.
func (r *Runner) Wait() error { return r.tomb.Wait() }

// run keeps one job going until it is stopped or done.
func (r *Runner) run(j *job) {
	defer func() {
		r.mu.Lock()
		delete(r.jobs, j.name)
		r.mu.Unlock()
		close(j.done)
	}()
	failures := 0
	for {
		began := time.Now()
		err := r.runOnce(j)
		if err == nil || errors.Is(err, ErrDone) || r.ending(j) {
			return
		}
		if time.Since(began) > healthy {
			failures = 0
		}
		failures++
		delay := r.backoff.Delay(failures)
		logger.Warningf("worker %s ended, starting it again in %v: %v", j.name, delay.Round(time.Millisecond), err)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-j.stop:
			timer.Stop()
			return
		case <-r.tomb.Dying():
			timer.Stop()
			return
		}
	}
}

// runOnce starts a job's worker and waits for its end. It returns nil only when
// the job was stopped.
func (r *Runner) runOnce(j *job) error {
	w, err := j.start()
	if err != nil {
		return errors.Trace(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Wait() }() // ends when the worker does, which this function waits for
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("it stopped without being asked to")
		}
		return err
	case <-j.stop:
	case <-r.tomb.Dying():
	}
	w.Kill()
	if err := <-ended; err != nil {
		logger.Warningf("worker %s did not stop cleanly: %v", j.name, err)
	}
	return nil
}

// ending reports whether the job was asked to stop.
func (r *Runner) ending(j *job) bool {
	select {
	case <-j.stop:
		return true
	case <-r.tomb.Dying():
		return true
	default:
		return false
	}
}
