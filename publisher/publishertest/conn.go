package publishertest

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A conn is a real connection whose bytes wait for the weather of its network.
type conn struct {
	net.Conn
	network *Network
	address string // address that was dialled

	reading sync.Mutex
	arrived []byte // bytes read from the real connection and not yet returned

	readDeadline, writeDeadline deadline

	end    sync.Once
	closed chan struct{}
	broken bool // broken by the network; set before closed is closed
}

func newConn(n *Network, address string, real net.Conn) *conn {
	c := &conn{Conn: real, network: n, address: address, closed: make(chan struct{})}
	c.readDeadline.moved = make(chan struct{})
	c.writeDeadline.moved = make(chan struct{})
	return c
}

// Read returns nothing while the network is frozen or muted, not even the end of the stream. Data that arrives in the
// meantime is kept.
func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	var failed error
	if len(c.arrived) == 0 {
		var n int
		if n, failed = c.Conn.Read(p); n > 0 {
			c.arrived, failed = append(c.arrived, p[:n]...), nil
		}
	}
	if err := c.await("read", &c.readDeadline, frozen, muted); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, c.cause("read", failed)
	}
	n := copy(p, c.arrived)
	c.arrived = c.arrived[n:]
	return n, nil
}

// Write sends nothing while the network is frozen.
func (c *conn) Write(p []byte) (int, error) {
	allowed, burnt := c.network.offer(len(p))
	if err := c.await("write", &c.writeDeadline, frozen, frozen); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p[:allowed])
	if burnt {
		c.network.Cut()
		return n, c.cause("write", net.ErrClosed)
	}
	if err != nil {
		err = c.cause("write", err)
	}
	return n, err
}

// Close ends the connection and the calls that wait in it.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.end.Do(func() {
		close(c.closed)
		c.network.forget(c)
		err = c.Conn.Close()
	})
	return err
}

// reset ends the connection as a peer that is gone does: data in transit is lost.
func (c *conn) reset() {
	c.end.Do(func() {
		c.broken = true
		close(c.closed)
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Conn.Close()
	})
}

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(at time.Time) error {
	c.readDeadline.set(at)
	c.writeDeadline.set(at)
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline also ends reads that wait for the weather.
func (c *conn) SetReadDeadline(at time.Time) error {
	c.readDeadline.set(at)
	return c.Conn.SetReadDeadline(at)
}

// SetWriteDeadline also ends writes that wait for the weather.
func (c *conn) SetWriteDeadline(at time.Time) error {
	c.writeDeadline.set(at)
	return c.Conn.SetWriteDeadline(at)
}

// await returns when the weather is neither bad nor worse, or with the error for the call that waits.
func (c *conn) await(op string, d *deadline, bad, worse weather) error {
	for {
		weather, changed := c.network.now(c.address)
		select {
		case <-c.closed:
			return c.cause(op, net.ErrClosed)
		default:
		}
		if weather != bad && weather != worse {
			return nil
		}
		at, moved := d.now()
		var due <-chan time.Time
		if !at.IsZero() {
			timer := time.NewTimer(time.Until(at))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-changed:
		case <-moved:
		case <-c.closed:
		case <-due:
			return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: os.ErrDeadlineExceeded}
		}
	}
}

// cause returns the error that the caller of op gets: a reset if the network broke the connection.
func (c *conn) cause(op string, err error) error {
	select {
	case <-c.closed:
		if c.broken {
			err = &net.OpError{
				Op: op, Net: "tcp", Addr: c.RemoteAddr(),
				Err: os.NewSyscallError(op, syscall.ECONNRESET),
			}
		}
	default:
	}
	return err
}

// A deadline can be moved while it is waited for.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	moved chan struct{} // closed and replaced by set
}

func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
	close(d.moved)
	d.moved = make(chan struct{})
}

func (d *deadline) now() (time.Time, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, d.moved
}
