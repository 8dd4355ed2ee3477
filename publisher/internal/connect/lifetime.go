package connect

import (
	"context"
	"sync"
)

// A Lifetime is the time from a publisher's New to its Close, which waits for the calls and goroutines counted in it.
// Counting and ending exclude each other, so that nothing begins after Close has begun to wait: a goroutine that
// outlives Close would use a logger or a network that its owner has taken away.
type Lifetime struct {
	Ctx context.Context //nolint:containedctx // ends with Close: it belongs to the publisher, not to a call

	end     context.CancelFunc
	mu      sync.Mutex // nothing is counted any more once End waits
	running sync.WaitGroup
}

// NewLifetime begins a lifetime.
func NewLifetime() *Lifetime {
	l := &Lifetime{}
	l.Ctx, l.end = context.WithCancel(context.Background())
	return l
}

// Over reports whether the lifetime has ended.
func (l *Lifetime) Over() bool { return l.Ctx.Err() != nil }

// Enter counts a call until Leave and reports true, or reports false after the end.
func (l *Lifetime) Enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Over() {
		return false
	}
	l.running.Add(1)
	return true
}

// Leave ends a call that Enter has counted.
func (l *Lifetime) Leave() { l.running.Done() }

// Start runs f in a goroutine and reports true, or reports false after the end. f must return soon after Ctx has ended.
func (l *Lifetime) Start(f func()) bool {
	if !l.Enter() {
		return false
	}
	go func() {
		defer l.Leave()
		f()
	}()
	return true
}

// Go runs f in a goroutine, for a call or a goroutine that is counted. It may be called after the end, because whoever
// calls it is waited for.
func (l *Lifetime) Go(f func()) { l.running.Go(f) }

// End ends the lifetime, and waits for all that is counted.
func (l *Lifetime) End() {
	l.mu.Lock()
	l.end()
	l.mu.Unlock()
	l.running.Wait()
}
