package nats

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

// reasonTime is how long a server's reason for ending the connection may take to be read after a write has failed. A
// server that rejects a client sends -ERR and then closes; a write may fail while that line is still unread.
const reasonTime = 200 * time.Millisecond

// A conn is the socket below nats.go, which writes while it holds the lock that every publish needs. After a failed
// write the connection ends; nats.go itself would drop what it could not write and go on. Whatever nats.go holds is
// then unknown to the server, from the middle of a message on. So nothing more is written (see network.Sender).
type conn struct {
	net.Conn
	sender network.Sender
	heard  func()                // called when the other side has sent something
	failed atomic.Pointer[error] // error of the write that ended the connection, or why this client ended it
}

// newConn returns the connection over a socket. heard is called by the goroutine of nats.go that reads.
func newConn(socket net.Conn, heard func()) *conn {
	c := &conn{Conn: socket, heard: heard}
	c.sender = network.Sender{To: socket, Go: func(f func()) { go f() }, Ended: c.fails}
	return c
}

// Read notes each sign of life of the server, whatever it is: an answer, a ping, or a part of either.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard()
	}
	return n, err
}

// Write queues the bytes and does not block. An error of the connection comes with the end of the reading.
func (c *conn) Write(b []byte) (int, error) { return c.sender.Write(b) }

// fails notes why the connection ends, and lets the read that is under way end it, after it has read the server's
// reason if there is one.
func (c *conn) fails(err error) {
	c.failed.CompareAndSwap(nil, &err)
	_ = c.SetReadDeadline(time.Now().Add(reasonTime))
}

// failure returns the reason why the connection ended, as far as this side knows it. The first reason counts; the
// errors that follow from it say less.
func (c *conn) failure() error {
	if failed := c.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}
