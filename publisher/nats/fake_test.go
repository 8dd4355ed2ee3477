package nats_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A fake is a NATS server that answers as a test wants. Its functions are set before it is dialled. They are called by
// one goroutine for each connection.
type fake struct {
	greeting  string                                         // sent instead of INFO
	cluster   []string                                       // addresses of other servers
	login     func(user, password string) error              // called for each CONNECT
	subscribe func(c *fakeConn, subject string) bool         // returns false if not permitted
	publish   func(c *fakeConn, subject, reply, body string) // called for each message
	address   string

	listener net.Listener
	done     sync.WaitGroup
	mu       sync.Mutex
	conns    map[*fakeConn]struct{}
}

type fakeConn struct {
	net.Conn
	lanes sync.Map // sid by subscribed subject
}

func (f *fake) start(t *testing.T) *fake {
	t.Helper()
	var err error
	if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	f.address, f.conns = f.listener.Addr().String(), map[*fakeConn]struct{}{}
	f.done.Go(func() {
		for {
			socket, err := f.listener.Accept()
			if err != nil {
				return
			}
			c := &fakeConn{Conn: socket}
			f.mu.Lock()
			f.conns[c] = struct{}{}
			f.mu.Unlock()
			f.done.Go(func() {
				defer c.Close()
				f.serve(c)
			})
		}
	})
	t.Cleanup(f.stop)
	return f
}

// stop closes everything.
func (f *fake) stop() {
	_ = f.listener.Close()
	f.mu.Lock()
	for c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.done.Wait()
}

// serve speaks the protocol until the connection ends.
func (f *fake) serve(c *fakeConn) {
	if f.greeting != "" {
		c.say("%s", f.greeting)
		return
	}
	urls, _ := json.Marshal(f.cluster)
	c.say(`INFO {"server_id":"F","version":"2.15.0","proto":1,"headers":true,"max_payload":1048576,"connect_urls":%s}`,
		urls)
	in := bufio.NewReader(c)
	var refused error
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch words[0] {
		case "CONNECT":
			var connect struct{ User, Pass string }
			if json.Unmarshal([]byte(line[len("CONNECT "):]), &connect) == nil && f.login != nil {
				refused = f.login(connect.User, connect.Pass)
			}
		case "PING":
			if refused != nil {
				c.say("-ERR '%v'", refused)
				return
			}
			c.say("PONG")
		case "SUB":
			if f.subscribe != nil && !f.subscribe(c, words[1]) {
				c.say(`-ERR 'Permissions Violation for Subscription to %q'`, words[1])
				continue
			}
			c.lanes.Store(words[1], words[len(words)-1])
		case "PUB", "HPUB":
			size, err := strconv.Atoi(words[len(words)-1])
			if err != nil {
				return
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			if c.sid(words[1]) != "" {
				c.nobody(words[2]) // an echo, which no client receives itself
				continue
			}
			if f.publish != nil {
				reply := ""
				if sizes := strings.Count(words[0], "H") + 1; len(words) > 2+sizes {
					reply = words[2]
				}
				f.publish(c, words[1], reply, string(body[:size]))
			}
		}
	}
}

func (c *fakeConn) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c, format+"\r\n", args...)
}

// sid returns the subscription to a subject with a wildcard as its last token, or "" if there is none.
func (c *fakeConn) sid(subject string) string {
	sid, _ := c.lanes.Load(subject[:max(0, strings.LastIndexByte(subject, '.'))] + ".*")
	text, _ := sid.(string)
	return text
}

// answer sends a message to a reply subject, whose last token is covered by a wildcard subscription.
func (c *fakeConn) answer(reply, body string) {
	if reply == "" {
		return
	}
	c.say("MSG %s %s %d\r\n%s", reply, c.sid(reply), len(body), body)
}

// nobody answers as a server does if nothing is subscribed to the subject.
func (c *fakeConn) nobody(reply string) {
	const header = "NATS/1.0 503\r\n\r\n"
	c.say("HMSG %s %s %d %d\r\n%s", reply, c.sid(reply), len(header), len(header), header)
}
