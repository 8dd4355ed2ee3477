package amqp_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A fake implements as much of an AMQP 0-9-1 server as a publisher uses, for answers that a real broker gives only in
// rare moments. It answers the handshake and declarations. A test answers publishes.
type fake struct {
	listener net.Listener
	// publish is called for each message, on the goroutine of its connection.
	publish func(m *sent)
	// login decides on a SASL PLAIN response; nil accepts every login.
	login   func(response string) bool
	enter   func(c *fakeConn) // answers connection.open; nil accepts it
	missing sync.Map          // names of exchanges that do not exist
	// channels is the number of channels that a connection may have; 0 for no limit. opens is the number that it may
	// open, although it may have more; 0 for no limit.
	channels, opens byte
	// heartbeat is the interval in seconds that the fake asks for, although it sends none; 0 for no heartbeats.
	heartbeat byte

	mu    sync.Mutex
	conns []*fakeConn // all connections that were ever accepted
	serve sync.WaitGroup
}

// A fakeConn is a connection to the fake. Its methods may be called from any goroutine.
type fakeConn struct {
	net.Conn
	fake *fake
	mu   sync.Mutex // held while a frame is written

	tags   map[uint16]uint64 // last delivery tag of each open channel
	closed map[uint16]bool   // channels whose close-ok is awaited
	left   map[uint16]bool   // channels that the client has closed; guarded by mu
	deaf   atomic.Bool       // answers nothing any more
	ended  atomic.Bool       // nothing is read from it any more

	response string // response to the SASL challenge
}

// A sent message is one that the fake has received.
type sent struct {
	conn            *fakeConn
	channel         uint16
	tag             uint64
	exchange, topic string
	mandatory       bool
	header          []byte // payload of the content header
	id, key         string
	body            []byte
}

// newFake starts a fake. It stops when the test ends.
func newFake(t *testing.T, listener net.Listener, publish func(*sent)) *fake {
	t.Helper()
	f := &fake{listener: listener, publish: publish}
	f.serve.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c := &fakeConn{Conn: conn, fake: f, tags: map[uint16]uint64{}, closed: map[uint16]bool{}, left: map[uint16]bool{}}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			f.serve.Go(func() {
				defer c.ended.Store(true)
				defer c.Close()
				_ = c.run(bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(f.stop)
	return f
}

// stop ends the fake. After that, publish is no longer called.
func (f *fake) stop() {
	_ = f.listener.Close()
	for _, c := range f.connections() {
		_ = c.Close()
	}
	f.serve.Wait()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func (f *fake) connections() []*fakeConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*fakeConn(nil), f.conns...)
}

// live counts the connections that have not ended.
func (f *fake) live() int {
	n := 0
	for _, c := range f.connections() {
		if !c.ended.Load() {
			n++
		}
	}
	return n
}

func (c *fakeConn) run(r *bufio.Reader) error {
	if _, err := r.Discard(8); err != nil { // protocol header
		return err
	}
	start := append([]byte{0, 9}, table()...)
	c.method(0, 10, 10, append(append(start, long("PLAIN")...), long("en_US")...))
	now := map[uint16]*sent{} // message that each channel is receiving
	for {
		var head [7]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		channel := binary.BigEndian.Uint16(head[1:])
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		payload = payload[:len(payload)-1] // frame end
		if c.deaf.Load() {
			continue
		}
		if c.closed[channel] && !bytes.HasPrefix(payload, []byte{0, 20, 0, 41}) {
			continue
		}
		m := now[channel]
		switch head[0] {
		case 1:
			if bytes.HasPrefix(payload, []byte{0, 60, 0, 40}) {
				c.tags[channel]++
				exchange, rest := short(payload[6:])
				topic, rest := short(rest)
				now[channel] = &sent{
					conn: c, channel: channel, tag: c.tags[channel], exchange: exchange, topic: topic,
					mandatory: rest[0]&1 == 1,
				}
			} else if !c.answer(channel, payload) {
				return nil
			}
			continue
		case 2:
			m.header = payload
			m.id, m.key = properties(payload)
		case 3:
			m.body = append(m.body, payload...)
		default:
			continue
		}
		if uint64(len(m.body)) == binary.BigEndian.Uint64(m.header[4:]) {
			c.fake.publish(m)
		}
	}
}

// answer answers a method other than publish. It returns false if the connection has ended.
func (c *fakeConn) answer(channel uint16, payload []byte) bool {
	class, id := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])
	switch [2]uint16{class, id} {
	case [2]uint16{10, 11}: // start-ok
		properties := 4 + 4 + binary.BigEndian.Uint32(payload[4:])
		_, rest := short(payload[properties:])
		response := string(rest[4 : 4+binary.BigEndian.Uint32(rest)])
		c.mu.Lock()
		c.response = response
		c.mu.Unlock()
		if c.fake.login != nil && !c.fake.login(response) {
			return false
		}
		c.method(0, 10, 30, []byte{0, c.fake.channels, 0, 1, 0, 0, 0, c.fake.heartbeat}) // tune: frames of up to 64 KiB
	case [2]uint16{10, 40}: // open
		if c.fake.enter != nil {
			c.fake.enter(c)
			break
		}
		c.method(0, 10, 41, []byte{0})
	case [2]uint16{10, 50}: // close
		c.method(0, 10, 51, nil)
		return false
	case [2]uint16{20, 10}: // channel open
		if c.fake.opens > 0 && channel > uint16(c.fake.opens) {
			c.closeChannel(channel, 504, "CHANNEL_ERROR - too many")
			break
		}
		c.tags[channel] = 0
		c.leave(channel, false)
		c.method(channel, 20, 11, []byte{0, 0, 0, 0})
	case [2]uint16{20, 40}: // channel close
		delete(c.tags, channel)
		c.leave(channel, true)
		c.method(channel, 20, 41, nil)
	case [2]uint16{20, 41}: // channel close-ok
		delete(c.closed, channel)
	case [2]uint16{40, 10}: // exchange declare
		name, _ := short(payload[6:])
		if _, missing := c.fake.missing.Load(name); missing {
			c.closeChannel(channel, 404, "NOT_FOUND - no exchange")
			break
		}
		c.method(channel, 40, 11, nil)
	case [2]uint16{90, 10}: // tx select
		c.method(channel, 90, 11, nil)
	case [2]uint16{90, 30}: // tx rollback
		c.method(channel, 90, 31, nil)
	case [2]uint16{85, 10}: // confirm select
		c.method(channel, 85, 11, nil)
	}
	return true
}

func (m *sent) ack() { m.confirm(80, false) }

// ackAll acknowledges all messages up to this one.
func (m *sent) ackAll() { m.confirm(80, true) }

func (m *sent) nack() { m.confirm(120, false) }

func (m *sent) confirm(method uint16, multiple bool) {
	flags := byte(0)
	if multiple {
		flags = 1
	}
	m.conn.method(m.channel, 60, method, append(binary.BigEndian.AppendUint64(nil, m.tag), flags))
}

// sendBack returns the message as unroutable.
func (m *sent) sendBack() {
	m.conn.mu.Lock()
	defer m.conn.mu.Unlock()
	args := append([]byte{0x01, 0x38}, text("NO_ROUTE")...)
	m.conn.frame(1, m.channel,
		append([]byte{0, 60, 0, 50}, append(append(args, text(m.exchange)...), text(m.topic)...)...))
	m.conn.frame(2, m.channel, m.header)
	if len(m.body) > 0 {
		m.conn.frame(3, m.channel, m.body)
	}
}

// closeChannel ends the message's channel and everything that is unanswered on it. It must be called on the
// connection's goroutine.
func (m *sent) closeChannel(code uint16, reason string) {
	m.conn.closeChannel(m.channel, code, reason)
}

func (c *fakeConn) closeChannel(channel, code uint16, reason string) {
	c.closed[channel] = true
	args := append(binary.BigEndian.AppendUint16(nil, code), text(reason)...)
	c.method(channel, 20, 40, append(args, 0, 60, 0, 40))
}

// closeConnection ends the connection as a broker does that is being stopped.
func (c *fakeConn) closeConnection(code uint16, reason string) {
	c.method(0, 10, 50, append(append(binary.BigEndian.AppendUint16(nil, code), text(reason)...), 0, 0, 0, 0))
}

func (c *fakeConn) block(reason string) { c.method(0, 10, 60, text(reason)) }

func (c *fakeConn) unblock() { c.method(0, 10, 61, nil) }

// leave notes that the client has closed a channel, or opened it.
func (c *fakeConn) leave(channel uint16, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left[channel] = left
}

func (c *fakeConn) method(channel, class, method uint16, args []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left[channel] && class == 60 {
		return // as a broker, which confirms nothing on a channel that the client has closed
	}
	payload := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), method)
	c.frame(1, channel, append(payload, args...))
}

// frame writes a frame. c.mu is held. The reader notices if the connection is gone.
func (c *fakeConn) frame(kind byte, channel uint16, payload []byte) {
	b := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	_, _ = c.Write(append(append(b, payload...), 206))
}

// properties reads the message id and the key from a content header.
func properties(header []byte) (id, key string) {
	flags := binary.BigEndian.Uint16(header[12:])
	rest := header[14:]
	for bit := uint16(0x8000); bit >= 0x0080; bit >>= 1 {
		switch {
		case flags&bit == 0:
		case bit == 0x2000: // headers, all of them strings
			end := 4 + binary.BigEndian.Uint32(rest)
			for fields := rest[4:end]; len(fields) > 0; {
				var name string
				name, fields = short(fields)
				length := binary.BigEndian.Uint32(fields[1:])
				if name == publisher.HeaderMessageKey {
					key = string(fields[5 : 5+length])
				}
				fields = fields[5+length:]
			}
			rest = rest[end:]
		case bit == 0x1000 || bit == 0x0800: // delivery mode, priority
			rest = rest[1:]
		default:
			id, rest = short(rest)
		}
	}
	if flags&0x0080 == 0 {
		id = ""
	}
	return id, key
}

func short(b []byte) (s string, rest []byte) { return string(b[1 : 1+b[0]]), b[1+b[0]:] }

func text(s string) []byte { return append([]byte{byte(len(s))}, s...) }

func long(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }

func table() []byte { return []byte{0, 0, 0, 0} }
