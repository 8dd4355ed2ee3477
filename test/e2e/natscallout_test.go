package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// calloutLife is how long a user of the callout may stay logged in.
const calloutLife = 3 * time.Second

// natsCallout is a NATS server that asks a service who may log in (auth callout). The service accepts one token, and
// gives its users a JWT that is valid for a few seconds.
type natsCallout struct {
	*natsBroker
	mu    sync.Mutex
	token string
	asked int
}

func newNATSCallout(t *testing.T) *natsCallout {
	t.Helper()
	issuer := newKeys(t, nkeys.CreateAccount)
	port := freePorts(t, 1)[0]
	n := newNode(t, "nats-callout")
	n.command = []string{installed(t, "nats", "nats-server"), "-c", n.write("nats.conf", fmt.Sprintf(`listen: 127.0.0.1:%d
		jetstream { store_dir: %q }
		accounts {
			SHOP { jetstream: enabled, users: [ { user: owner, password: owner } ] }
			AUTH { users: [ { user: auth, password: auth } ] }
		}
		authorization { timeout: 5, auth_callout { issuer: %s, account: AUTH, auth_users: [ auth, owner ] } }
		`, port, n.dir, public(t, issuer)))}
	n.start()
	n.awaitLog("Server is ready")
	c := &natsCallout{}
	conn, err := nats.Connect(fmt.Sprintf("nats://auth:auth@127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, err := conn.Subscribe("$SYS.REQ.USER.AUTH", func(m *nats.Msg) {
		request, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
		if err != nil {
			t.Error(err)
			return
		}
		answer := jwt.NewAuthorizationResponseClaims(request.UserNkey)
		answer.Audience = request.Server.ID
		c.mu.Lock()
		c.asked++
		known := request.ConnectOptions.Token == c.token
		c.mu.Unlock()
		if known {
			user := jwt.NewUserClaims(request.UserNkey)
			user.Audience, user.Expires = "SHOP", time.Now().Add(calloutLife).Unix()
			answer.Jwt = encode(t, user, issuer)
		} else {
			answer.Error = "unknown token"
		}
		if err := m.Respond([]byte(encode(t, answer, issuer))); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	c.natsBroker = newNATS(t, fmt.Sprintf("nats://127.0.0.1:%d", port), nats.UserInfo("owner", "owner"))
	return c
}

// know makes the service accept another token.
func (c *natsCallout) know(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
}

func (c *natsCallout) asks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// TestNATSCallout logs in to a server where a service decides who may log in. The server ends the connections of its
// users every few seconds. The relay logs in again with the token that is valid at that time. Neither this nor a
// refused token costs a row an attempt.
func TestNATSCallout(t *testing.T) {
	t.Parallel()
	s, c := newSecured(t), newNATSCallout(t)
	topic := c.topic(t)
	c.know("hunter2-1")
	path := s.write(t, "callout-token", []byte("hunter2-1"))
	f := startTraffic(t, c, topic, "OUTBOX_NATS_TOKEN_FILE="+path)
	f.add(100)
	f.awaitDrained()
	for range 2 {
		before := c.asks()
		await(t, "another login", func() bool { return c.asks() > before })
		f.add(100)
		f.awaitDrained()
	}
	c.know("hunter2-2")
	f.relay.awaitNotReady("refuses the login", "OUTBOX_NATS_TOKEN")
	f.add(100)
	s.write(t, "callout-token", []byte("hunter2-2"))
	f.awaitDrained()
	f.relay.awaitReady()
	check(t, f.table, c.received(t, topic))
	f.checkUnspent(everyRow)
	if strings.Contains(f.relay.Log(), "hunter2") {
		t.Errorf("a secret is logged:\n%s", f.relay.Log())
	}
	f.relay.stop()
}
