// Package replica runs the relay's binary as a process that can be killed, frozen and stopped.
package replica

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// A Replica is a place in which one process after the other runs. Its exported fields are set before Start. It is
// not safe for concurrent use, but for Running and Ready.
type Replica struct {
	Name     string
	Binary   string
	Settings []string      // NAME=value
	Log      string        // path of the file to which all its processes write
	StopTime time.Duration // in which a process must end after SIGTERM
	MayLeave bool          // rows unsettled at a stop, since a fault may have taken their answers
	// Ended is called when a process ends that nobody told to.
	Ended func(how string)

	mu      sync.Mutex
	process *testkit.Relay // the last one; nil before the first
	told    bool           // that process, to end
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
	r.process, r.told = p, false
	r.mu.Unlock()
	go func() { // Stop and Kill wait for the end of the process
		err := p.Err()
		r.mu.Lock()
		byItself := r.process == p && !r.told
		r.mu.Unlock()
		if byItself {
			r.Ended(fmt.Sprintf("ended by itself: %v", err))
		}
	}()
	return nil
}

// last returns the last process, nil before the first.
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

// tell returns the process that runs, after noting that it was told to end, or nil.
func (r *Replica) tell() *testkit.Relay {
	if !r.Running() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = true
	return r.process
}

// Kill ends the process as kill -9 does.
func (r *Replica) Kill() {
	if p := r.tell(); p != nil {
		p.Kill()
	}
}

// unsettled is the status of a relay that had to leave rows which it will publish again.
const unsettled = 3

// Stop asks the process to end and waits for it. One that does not end in time, or not well, is reported to Ended.
func (r *Replica) Stop() {
	p := r.tell()
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.StopTime)
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

// Thaw lets it go on.
func (r *Replica) Thaw() {
	if p := r.last(); p != nil {
		p.Thaw()
	}
}

// Ready returns what /readyz says in full.
func (r *Replica) Ready(ctx context.Context) (ready bool, text string) {
	if p := r.last(); p != nil {
		return p.Ready(ctx)
	}
	return false, "not started"
}
