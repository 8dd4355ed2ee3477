package amqp

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// corkSize is how many bytes a burst gathers before they are written.
	corkSize = 64 << 10
	// writeGrace is how long a write that is under way may still take once its caller's context has
	// ended. Giving it up leaves half a frame on the wire, which costs the connection.
	writeGrace = 100 * time.Millisecond
)

// A socket is the network connection below the client library, which flushes after every message,
// ignores contexts while it writes, and has no single event for "some confirms have arrived".
// The socket gathers the writes of a burst, bounds them by a context, and reports reads.
type socket struct {
	net.Conn
	raw net.Conn // below TLS, or the same

	// dispatched is called whenever the library comes back to read more: everything read before has
	// then been handled, confirms and returns included.
	dispatched func()

	writing sync.Mutex // held while bytes are added to pending or written
	corks   int        // bursts under way
	pending []byte

	received atomic.Int64          // bytes
	broken   atomic.Pointer[error] // why we have ended it: a write that failed, or silence

	hearing sync.Mutex
	first   []byte // that the peer has sent, at most a few
	ended   error  // of the first read that failed

	expiring sync.Mutex
	expired  int // bursts whose context has ended and whose write deadline is in force
}

func (s *socket) Read(b []byte) (int, error) {
	s.dispatched()
	n, err := s.Conn.Read(b)
	if broken := s.broken.Load(); err != nil && broken != nil {
		err = *broken // why the connection was closed under the read
	}
	s.received.Add(int64(n))
	s.hear(b[:n], err)
	return n, err
}

// hear remembers how the peer began and why it ended, of which the library only keeps a text.
func (s *socket) hear(b []byte, err error) {
	const few = 8
	s.hearing.Lock()
	defer s.hearing.Unlock()
	if len(s.first) < few {
		s.first = append(s.first, b[:min(len(b), few-len(s.first))]...)
	}
	if s.ended == nil {
		s.ended = err
	}
}

// heard returns the first bytes that the peer has sent, and why the connection has ended, if it has.
func (s *socket) heard() (first []byte, ended error) {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	return s.first, s.ended
}

// Close ends the connection without a goodbye in TLS, which could block.
func (s *socket) Close() error { return s.raw.Close() }

// Write takes all of b, or breaks the connection.
func (s *socket) Write(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.pending = append(s.pending, b...)
	if s.corks > 0 && len(s.pending) < corkSize {
		return len(b), nil
	}
	if err := s.flush(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// flush writes what is pending. A failure closes the connection: the library would not notice every
// one, and nobody knows where in a frame the write has stopped.
func (s *socket) flush() error {
	if len(s.pending) == 0 {
		return nil
	}
	_, err := s.Conn.Write(s.pending)
	s.pending = s.pending[:0]
	if cap(s.pending) > 4*corkSize {
		s.pending = nil // a large body has passed
	}
	if err != nil {
		s.fail(err)
	}
	return err
}

// fail ends the connection for a reason of ours.
func (s *socket) fail(err error) {
	s.broken.CompareAndSwap(nil, &err)
	_ = s.Close()
}

// burst runs send and writes what it sends in few large pieces, all of it before burst returns.
// When ctx ends, a write that blocks is broken off after writeGrace, and with it the connection.
func (s *socket) burst(ctx context.Context, send func()) {
	expired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(expired)
		s.expire(+1)
	})
	s.cork(+1)
	send()
	s.cork(-1)
	if !stop() {
		<-expired
		s.expire(-1)
	}
}

// cork counts the bursts under way. What has gathered is written when one ends, whoever wrote it.
func (s *socket) cork(n int) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.corks += n
	if n < 0 {
		_ = s.flush() // closed the connection, which answers everything on it
	}
}

// expire counts the bursts whose context has ended; only the last to end lifts the deadline.
func (s *socket) expire(n int) {
	s.expiring.Lock()
	defer s.expiring.Unlock()
	s.expired += n
	if s.expired == 0 {
		_ = s.SetWriteDeadline(time.Time{})
	} else if n > 0 {
		_ = s.SetWriteDeadline(time.Now().Add(writeGrace))
	}
}
