// Package replica runs the relay's binary as a process that can be killed, frozen and stopped.
package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// A Replica is a place in which one process runs after another. Its exported fields are set before Start. It is not
// safe for concurrent use, except for Running and Ready.
type Replica struct {
	Name     string
	Binary   string
	Settings []string      // NAME=value
	Log      string        // path of the file to which all processes of the replica write
	StopTime time.Duration // time within which a process must end after SIGTERM
	MayLeave bool          // rows may be unsettled at a stop, since a fault may have prevented their answers
	// Ended is called when a process ends that was not asked to end.
	Ended func(how string)

	mu      sync.Mutex
	process *testkit.Relay // the latest one; nil before the first
	asked   bool           // the process was asked to end
}

// Start starts a process, unless one runs.
func (r *Replica) Start(ctx context.Context) error {
	if r.Running() {
		return nil
	}
	p, err := testkit.StartRelay(ctx, r.Binary, r.Settings, r.Log)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.process, r.asked = p, false
	r.mu.Unlock()
	go func() { // Stop and Kill wait for the end of the process
		err := p.Err()
		r.mu.Lock()
		byItself := r.process == p && !r.asked
		r.mu.Unlock()
		if byItself {
			r.Ended(fmt.Sprintf("ended by itself: %v", err))
		}
	}()
	return nil
}

// last returns the latest process, or nil before the first.
func (r *Replica) last() *testkit.Relay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// Running reports whether a process runs, frozen or not.
func (r *Replica) Running() bool {
	p := r.last()
	return p != nil && p.Running()
}

// askToEnd returns the running process after recording that it was asked to end, or nil if none runs.
func (r *Replica) askToEnd() *testkit.Relay {
	if !r.Running() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = true
	return r.process
}

// Kill ends the process as kill -9 does.
func (r *Replica) Kill() {
	if p := r.askToEnd(); p != nil {
		p.Kill()
	}
}

// unsettled is the exit status of a relay that had to leave rows which it will publish again.
const unsettled = 3

// Stop asks the process to end and waits for it. A process that does not end in time, or ends with an error, is
// reported to Ended.
func (r *Replica) Stop(ctx context.Context) {
	p := r.askToEnd()
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.StopTime)
	defer cancel()
	if p.Stop(ctx) != nil {
		r.Ended(fmt.Sprintf("did not end within %v after SIGTERM", r.StopTime))
		p.Kill()
	} else if code := p.Status(); code != 0 && (code != unsettled || !r.MayLeave) {
		r.Ended(fmt.Sprintf("ended with status %d after SIGTERM", code))
	}
}

// Freeze stops the process where it is, until Thaw.
func (r *Replica) Freeze() {
	if p := r.last(); p != nil {
		p.Freeze()
	}
}

// Thaw resumes a frozen process.
func (r *Replica) Thaw() {
	if p := r.last(); p != nil {
		p.Thaw()
	}
}

// Ready returns whether /readyz answers 200, and its text.
func (r *Replica) Ready(ctx context.Context) (ready bool, text string) {
	if p := r.last(); p != nil {
		return p.Ready(ctx)
	}
	return false, "not started"
}
