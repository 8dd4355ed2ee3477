package amqp

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// corkSize is the number of bytes that a burst gathers before they are written.
	corkSize = 64 << 10
	// writeGrace is how much longer a write that is under way may take after its caller's context has ended. Giving up
	// the write leaves half a frame on the wire, which costs the connection. If the broker blocks publishing, the write
	// goes on by itself instead.
	writeGrace = 100 * time.Millisecond
)

// A socket is the network connection below the client library. The library flushes after every message, ignores
// contexts while it writes, and has no single event for "some confirms have arrived". The socket gathers the writes of
// a burst, bounds them by a context, and reports reads.
type socket struct {
	net.Conn
	raw net.Conn // connection below TLS, or the same connection

	// dispatched is called whenever the library begins to read more. Everything read before has then been handled,
	// including confirms and returns.
	dispatched func()
	blocks     func() bool  // whether the broker blocks publishing
	start      func(func()) // runs a function in a goroutine

	writing sync.Mutex // held while bytes are added to pending or written
	corks   int        // number of bursts under way
	pending []byte
	spare   []byte        // the buffer that was written last
	stuck   bool          // a write goes on by itself
	leave   chan struct{} // makes the write under way go on by itself; has room for one

	received atomic.Int64 // number of bytes received
	// Unix time in nanoseconds of the first question since the last byte received; 0 for none
	asked  atomic.Int64
	broken atomic.Pointer[error] // why this client has ended the connection: a failed write, or silence

	hearing sync.Mutex
	first   []byte // first few bytes that the peer has sent
	ended   error  // error of the first read that failed
}

func (s *socket) Read(b []byte) (int, error) {
	s.dispatched()
	n, err := s.Conn.Read(b)
	if broken := s.broken.Load(); err != nil && broken != nil {
		err = *broken // why the connection was closed during the read
	}
	if s.received.Add(int64(n)); n > 0 {
		s.asked.Store(0)
	}
	s.hear(b[:n], err)
	return n, err
}

// hear remembers the peer's first bytes and the reason of the end. The library keeps only a text of the latter.
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

// Close ends the connection without a TLS close notification, which could block.
func (s *socket) Close() error { return s.raw.Close() }

// Write takes all of b. If it cannot be written, the connection is closed, and the library finds out when it reads.
// An error of Write would make the library (v1.16.0) shut down beside its reader, which panics if it has just been
// told that the broker blocks: it sends on a channel that the shutdown closes.
func (s *socket) Write(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.pending = append(s.pending, b...)
	if s.corks == 0 || len(s.pending) >= corkSize {
		s.flush()
	}
	return len(b), nil
}

// SetDeadline sets the deadline of reads and writes. An error means that the connection has ended, and is told like
// one of Write.
func (s *socket) SetDeadline(t time.Time) error {
	_ = s.Conn.SetDeadline(t)
	return nil
}

// flush writes what is pending. A failure closes the connection, because the library would not notice every failure,
// and the position in a frame at which the write stopped is unknown. s.writing is held.
func (s *socket) flush() {
	if len(s.pending) == 0 || s.stuck {
		return
	}
	select {
	case <-s.leave: // meant for an earlier write
	default:
	}
	b, written := s.pending, make(chan struct{})
	s.pending = s.spare[:0]
	s.start(func() {
		defer close(written)
		if _, err := s.Conn.Write(b); err != nil {
			s.fail(err)
		}
	})
	select {
	case <-written:
		if s.spare = b; cap(b) > 4*corkSize {
			s.spare = nil // a large body has passed
		}
	case <-s.leave:
		s.stuck, s.spare = true, nil
		s.start(func() {
			<-written
			s.writing.Lock()
			defer s.writing.Unlock()
			s.stuck = false
			s.flush()
		})
	}
}

// fail ends the connection for a reason on this side.
func (s *socket) fail(err error) {
	s.broken.CompareAndSwap(nil, &err)
	_ = s.Close()
}

// burst runs send and writes what it sends in a few large pieces, all before it returns. If ctx ends, a write that
// blocks is given up after writeGrace.
func (s *socket) burst(ctx context.Context, send func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-ended:
		case <-time.After(writeGrace):
			s.giveUp()
		}
	})
	s.cork(+1)
	send()
	s.cork(-1)
	close(ended)
	stop()
}

// giveUp ends the wait for a write that is under way, and the connection unless the broker blocks publishing.
func (s *socket) giveUp() {
	if !s.blocks() {
		s.fail(os.ErrDeadlineExceeded)
		return
	}
	select {
	case s.leave <- struct{}{}:
	default:
	}
}

// cork counts the bursts under way. When one ends, everything gathered is written, including the data of other bursts.
func (s *socket) cork(n int) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.corks += n
	if n < 0 {
		s.flush()
	}
}
