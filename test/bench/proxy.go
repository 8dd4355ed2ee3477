package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// proxy forwards TCP connections to a server. It delays what is sent to the server, whatever the amount, and counts.
type proxy struct {
	url   string // URL of the server, through the proxy
	bytes atomic.Int64
	open  atomic.Int64 // number of open connections
	// statements counts the statements of PostgreSQL's simple and extended protocols, if the server is a PostgreSQL.
	statements atomic.Int64
	// fromServer reads what the server sends while it is forwarded; nil for no reader.
	fromServer func(io.Reader)

	server   string
	delay    time.Duration
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	writes []string // statements that write something
	stop   context.CancelFunc
}

// startProxy starts a proxy in front of the server of a URL.
func startProxy(ctx context.Context, address string, delay time.Duration) (*proxy, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("an address is not a URL")
	}
	p := &proxy{server: u.Host, delay: delay}
	if p.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	u.Host = p.listener.Addr().String()
	p.url = u.String()
	back := io.Copy
	if u.Scheme == "kafka" {
		if back, err = p.advertised(); err != nil {
			return nil, err
		}
	}
	toServer := p.delayed
	if u.Scheme == "postgres" || u.Scheme == "postgresql" {
		toServer = func(ctx context.Context, server io.Writer, client io.Reader) {
			along(client, p.count, func(client io.Reader) { p.delayed(ctx, server, client) })
		}
		back = func(client io.Writer, server io.Reader) (n int64, err error) {
			if p.fromServer == nil {
				return io.Copy(client, server)
			}
			along(server, p.fromServer, func(server io.Reader) { n, err = io.Copy(client, server) })
			return n, err
		}
	}
	ctx, p.stop = context.WithCancel(ctx)
	p.running.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.forward(ctx, client, toServer, back) })
		}
	})
	return p, nil
}

func (p *proxy) close() {
	p.stop()
	_ = p.listener.Close()
	p.running.Wait()
}

func (p *proxy) forward(ctx context.Context, client net.Conn, toServer func(context.Context, io.Writer, io.Reader),
	back func(io.Writer, io.Reader) (int64, error),
) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return // the client sees its connection closed
	}
	defer server.Close()
	p.open.Add(1)
	defer p.open.Add(-1)
	var both sync.WaitGroup
	end := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer end()
	both.Go(func() {
		toServer(ctx, server, client)
		_ = server.Close() // the other direction ends too
	})
	_, _ = back(client, server) // however the copy ends, the connection ends with it
	_ = client.Close()
	both.Wait()
}

// along lets a second reader read the same data.
func along(r io.Reader, second, first func(io.Reader)) {
	reader, writer := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() { second(reader) })
	first(io.TeeReader(r, writer))
	_ = writer.Close() // it never fails
	reading.Wait()
}

// chunk is data that arrived at once, with the time at which it may be forwarded.
type chunk struct {
	due  time.Time
	data []byte
}

// delayed copies data so that everything arrives later by the delay, at the same throughput.
func (p *proxy) delayed(ctx context.Context, server io.Writer, client io.Reader) {
	chunks := make(chan chunk, 1<<14)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for c := range chunks {
			if pause(ctx, time.Until(c.due)) == nil {
				_, _ = server.Write(c.data) // a lost connection ends the reading too
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if n > 0 {
			p.bytes.Add(int64(n))
			chunks <- chunk{time.Now().Add(p.delay), bytes.Clone(buffer[:n])}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	<-written
}

// advertised returns a function that copies a Kafka broker's answers and replaces the broker's advertised address with
// the proxy's.
func (p *proxy) advertised() (func(io.Writer, io.Reader) (int64, error), error) {
	pattern := func(address string) ([]byte, error) {
		host, text, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		port, err := strconv.ParseUint(text, 10, 16)
		return binary.BigEndian.AppendUint32([]byte(host), uint32(port)), err
	}
	theirs, err := pattern(p.server)
	if err != nil {
		return nil, err
	}
	ours, err := pattern(p.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return func(client io.Writer, server io.Reader) (int64, error) {
		var size [4]byte
		for {
			if _, err := io.ReadFull(server, size[:]); err != nil {
				return 0, err
			}
			answer := make([]byte, binary.BigEndian.Uint32(size[:]))
			if _, err := io.ReadFull(server, answer); err != nil {
				return 0, err
			}
			answer = bytes.ReplaceAll(answer, theirs, ours)
			if _, err := client.Write(append(size[:], answer...)); err != nil {
				return 0, err
			}
		}
	}, nil
}

// count counts the statements in the data that a client of PostgreSQL sends.
func (p *proxy) count(client io.Reader) {
	defer func() { _, _ = io.Copy(io.Discard, client) }()
	var head [5]byte
	if _, err := io.ReadFull(client, head[:4]); err != nil { // the first message has no type
		return
	}
	parsed, bound := map[string]string{}, "" // by name
	for size := head[:4]; ; size = head[1:] {
		body := make([]byte, max(binary.BigEndian.Uint32(size), 4)-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return
		}
		switch head[0] {
		case 'P': // name and text of a statement
			name, text, _ := bytes.Cut(body, []byte{0})
			parsed[string(name)] = string(text)
			if name, statement, found := prepares(string(text)); found {
				parsed[name] = statement
			}
		case 'B': // names of a portal and of a statement
			_, names, _ := bytes.Cut(body, []byte{0})
			name, _, _ := bytes.Cut(names, []byte{0})
			bound = parsed[string(name)]
		case 'Q':
			p.note(string(body))
		case 'E':
			p.note(bound)
		}
		if _, err := io.ReadFull(client, head[:]); err != nil {
			return
		}
	}
}

// note records a statement. A notification counts as a write: it draws a transaction id.
func (p *proxy) note(statement string) {
	if _, _, found := prepares(statement); found {
		return
	}
	p.statements.Add(1)
	reads := strings.HasPrefix(strings.TrimPrefix(statement, "("), "select") ||
		strings.HasPrefix(statement, "-- ping") // by pgx
	if !reads || strings.HasPrefix(statement, "select pg_notify") {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.writes = append(p.writes, statement)
	}
}

// prepares returns the name and text of the statement that a command prepares.
func prepares(command string) (name, statement string, found bool) {
	rest, found := strings.CutPrefix(command, "prepare ")
	if !found {
		return "", "", false
	}
	return strings.Cut(rest, " as ")
}

// begin resets the counts.
func (p *proxy) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = nil
	p.statements.Store(0)
}

// written returns the statements that wrote something since begin.
func (p *proxy) written() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}
