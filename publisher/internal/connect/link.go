package connect

import (
	"context"
	"math"
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
	count atomic.Int64 // plus retired, once new calls use another link
}

const retired = math.MinInt64

// Use counts a call that uses the link. It returns false if the link was retired: no call begins on a link that is
// about to be closed.
func (u *Users) Use() bool {
	if u.count.Add(1) > 0 {
		return true
	}
	u.count.Add(-1)
	return false
}

// Add changes the number of things that need the link, retired or not. It is for answers that are owed, which may come
// to be owed after the link was retired, by the calls that still use it.
func (u *Users) Add(n int) { u.count.Add(int64(n)) }

// retire makes new calls use another link.
func (u *Users) retire() { u.count.Add(retired) }

// any reports whether something needs the link, which was retired.
func (u *Users) any() bool { return u.count.Load() != retired }
