package amqp

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// A socket is the network connection below the client library. The library flushes after every message, ignores
// contexts while it writes, and has no single event for "some confirms have arrived". The socket gathers the writes of
// a burst, writes them without keeping anybody waiting, and reports reads. Without it, a broker under an alarm would
// stop each call in the middle of a write, beyond all time limits, once the kernel's buffers were full (about 4 MB).
//
// A write that failed is not an error of Write, but closes the connection, and the library finds out when it reads. An
// error of Write would make the library (v1.16.0) shut down beside its reader, which panics if it has just been told
// that the broker blocks: it sends on a channel that the shutdown closes.
type socket struct {
	*connect.Conn
	raw net.Conn // connection below TLS, or the same connection

	// dispatched is called whenever the library begins to read more. Everything read before has then been handled,
	// including confirms and returns.
	dispatched func()

	ended atomic.Pointer[error] // error of the first read that failed
}

// newSocket returns the socket of a connection that is being made. link is raw, or the TLS session above it.
func newSocket(link, raw net.Conn, c *connection) *socket {
	return &socket{
		Conn: &connect.Conn{Conn: link, Go: c.p.life.Go, Heard: c.Heard, Ended: func() { _ = raw.Close() }},
		raw:  raw, dispatched: c.wake,
	}
}

// Read is called by the library's one reader. A read that begins shows that everything before it is handled. The reason
// of the end is remembered, because the library keeps only a text of it.
func (s *socket) Read(b []byte) (int, error) {
	s.dispatched()
	n, err := s.Conn.Read(b)
	if failed := s.Failure(); err != nil && failed != nil {
		err = failed // why the connection was closed during the read
	}
	if err != nil {
		s.ended.CompareAndSwap(nil, &err)
	}
	return n, err
}

// reason returns why the connection has ended, or nil if it has not: the write that failed, or else what the last read
// returned.
func (s *socket) reason() error {
	if ended := s.ended.Load(); ended != nil && s.Failure() == nil {
		return *ended
	}
	return s.Failure()
}

// Close ends the connection without a TLS close notification, which could block.
func (s *socket) Close() error { return s.raw.Close() }

// SetDeadline sets the deadline of reads and writes. An error means that the connection has ended, and is told like
// that of a write.
func (s *socket) SetDeadline(t time.Time) error {
	_ = s.Conn.SetDeadline(t)
	return nil
}
