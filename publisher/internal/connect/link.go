package connect

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Link is one connection to one server, from its greeting to its end. It embeds a [State].
type Link interface {
	comparable
	// Common returns the embedded State.
	Common() *State
	// Greet asks the server for any sign of life and waits for the answer until ctx ends. It reports whether it was
	// able to ask.
	Greet(ctx context.Context) (asked bool)
	// Away returns the answer for messages that cannot be sent because the connection has ended or is [State.Silent],
	// and otherwise nil.
	Away() error
	// Lost returns the answer for messages that cannot be sent because the connection has ended.
	Lost() error
	// Close ends the connection and waits for its end.
	Close()
}

// A State is what a [Keeper], the calls and the network connection share about a link. All of it may be used by any
// goroutine. heard and silent are compared and not reset: a link that speaks again is not silent, without anybody
// having to notice.
type State struct {
	Users Users
	Ended chan struct{} // closed when the connection has ended, and what came over it is with the calls

	heard  atomic.Int64 // time at which the server last sent something, in nanoseconds since 1970
	silent atomic.Int64 // time of the greeting after which it sent nothing; 0 for none
}

// Common implements [Link].
func (s *State) Common() *State { return s }

// Heard notes that the server has sent something. It is called for each read from the network, so it takes no lock.
func (s *State) Heard() { s.heard.Store(time.Now().UnixNano()) }

// QuietSince reports whether the server has sent nothing since the given time. What it has sent may be anything.
func (s *State) QuietSince(t time.Time) bool { return s.heard.Load() < t.UnixNano() }

// Silent reports whether the server has sent nothing since it was greeted in vain.
func (s *State) Silent() bool {
	greeted := s.silent.Load()
	return greeted != 0 && s.heard.Load() < greeted
}

// Users counts what needs a link: calls that use it, and messages whose answers it still owes. The count may be above
// zero after the link was retired, and only falls from then on but for answers that become owed.
type Users struct {
	mu      sync.Mutex
	count   int
	retired bool // new calls use another link
}

// Use counts a call that uses the link. It returns false if the link was retired. Counting and retiring exclude each
// other, so that no call begins on a link that is about to be closed.
func (u *Users) Use() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.retired {
		u.count++
	}
	return !u.retired
}

// Add changes the number of things that need the link, retired or not. It is for answers that are owed, which may come
// to be owed after the link was retired, by the calls that still use it.
func (u *Users) Add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count += n
}

// Any reports whether something needs the link.
func (u *Users) Any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count > 0
}

func (u *Users) retire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.retired = true
}
