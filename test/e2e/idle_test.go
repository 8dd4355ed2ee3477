package e2e

import (
	"bytes"
	wire "encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// statements records the statements that are sent over some connections, in order.
type statements struct {
	mu   sync.Mutex
	sent []string
}

// newStatements starts a proxy in front of the server of an address that records statements, and returns the address that
// leads through it.
func newStatements(t *testing.T, address string) (s *statements, through string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the address of the database is not a URL")
	}
	s = &statements{}
	server, listener := u.Host, listen(t)
	u.Host = listener.Addr().String()
	go serve(listener, func(client net.Conn) {
		defer client.Close()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
		if err != nil {
			return // the client sees its connection closed
		}
		defer conn.Close()
		go func() { _, _ = io.Copy(client, conn); _ = client.Close() }()
		_, _ = io.Copy(&readAlong{Conn: conn, statements: s, parsed: map[string]string{}}, client)
	})
	return s, u.String()
}

// since returns the statements from the n-th on.
func (s *statements) since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[n:]
}

// readAlong is a connection whose statements are recorded.
type readAlong struct {
	net.Conn
	*statements
	pending []byte
	begun   bool              // the first message, which has no type, has been sent
	parsed  map[string]string // by name
	bound   string
}

func (c *readAlong) Write(b []byte) (int, error) {
	for c.pending = append(c.pending, b...); ; {
		head := 1
		if !c.begun {
			head = 0
		}
		if len(c.pending) < head+4 {
			break
		}
		end := head + int(wire.BigEndian.Uint32(c.pending[head:]))
		if len(c.pending) < end {
			break
		}
		if c.begun {
			c.note(c.pending[0], c.pending[5:end])
		}
		c.begun, c.pending = true, c.pending[end:]
	}
	return c.Conn.Write(b)
}

func (c *readAlong) note(kind byte, body []byte) {
	name, rest, _ := bytes.Cut(body, []byte{0})
	second, _, _ := bytes.Cut(rest, []byte{0})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kind {
	case 'P':
		c.parsed[string(name)] = string(second)
	case 'B':
		c.bound = c.parsed[string(second)]
	case 'Q':
		c.sent = append(c.sent, string(name))
	case 'E':
		c.sent = append(c.sent, c.bound)
	}
}

// TestIdleOwnerAsksLittle counts the statements of an owner whose doorbell works and that has been idle for some time. There
// are at most three statements for each glance at the table, including those for its ownership and its listener. A new row is
// still relayed at once.
func TestIdleOwnerAsksLittle(t *testing.T) {
	t.Parallel()
	outbox := newTable(t)
	all, through := newStatements(t, outbox.URL)
	env := outbox.env("stdout:", "OUTBOX_DATABASE_URL="+through, "OUTBOX_LISTEN_CHANNEL="+outbox.Name)
	code, ddl, problems := runCommand(t, env, "schema", "--doorbell")
	if code != 0 {
		t.Fatalf("schema --doorbell: status %d: %s", code, problems)
	}
	outbox.Exec(t, "drop table outbox_messages")
	outbox.Exec(t, ddl)
	r := startRelay(t, env)
	r.awaitReady()
	glances := func(from int) (n int) {
		for _, statement := range all.since(from) {
			if strings.HasPrefix(statement, "select pg_current_snapshot()::text, age(") {
				n++
			}
		}
		return n
	}
	await(t, "the owner is idle", func() bool { return glances(0) > 0 })
	const looks = 4 // a look waits for 20 times what the last one took, which may be seconds on a busy machine
	from := len(all.since(0))
	await(t, "looks", func() bool { return glances(from) >= looks })
	asked := all.since(from)
	t.Logf("%d statements with %d looks", len(asked), looks)
	if len(asked) > 3*looks {
		t.Errorf("they are:\n%s", strings.Join(asked, "\n"))
	}
	outbox.Exec(t, `insert into outbox_messages (topic, payload) values ('orders', '{}')`)
	outbox.awaitDrained()
	if n := r.metric(`wakeups_total{source="listen"}`); n == "" || n == "0" {
		t.Error("the row did not ring")
	}
	r.stop()
}
