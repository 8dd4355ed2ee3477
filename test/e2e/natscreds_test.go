package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// natsOperator is a NATS server that trusts an operator: users log in with a JWT that their account has signed.
type natsOperator struct {
	*natsBroker
	account nkeys.KeyPair
}

func newNATSOperator(t *testing.T) *natsOperator {
	t.Helper()
	operator, account := newKeys(t, nkeys.CreateOperator), newKeys(t, nkeys.CreateAccount)
	o := &natsOperator{account: account}
	claims := jwt.NewAccountClaims(public(t, account))
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
		DiskStorage: jwt.NoLimit, MemoryStorage: jwt.NoLimit, Streams: jwt.NoLimit,
		Consumer: jwt.NoLimit,
	}
	system := newKeys(t, nkeys.CreateAccount)
	trusted := jwt.NewOperatorClaims(public(t, operator))
	trusted.SystemAccount = public(t, system)
	conf := fmt.Sprintf("operator: %q\nresolver: MEMORY\nresolver_preload: {\n  %s: %q\n  %s: %q\n}",
		encode(t, trusted, operator), public(t, account), encode(t, claims, operator),
		public(t, system), encode(t, jwt.NewAccountClaims(public(t, system)), operator))

	port := freePorts(t, 1)[0]
	n := newNode(t, "nats-server")
	n.command = []string{
		installed(t, "nats", "nats-server"), "-c",
		n.write("nats.conf", fmt.Sprintf("listen: 127.0.0.1:%d\njetstream { store_dir: %q }\n%s\n", port, n.dir, conf)),
	}
	n.start()
	n.awaitLog("Server is ready")
	address := fmt.Sprintf("nats://127.0.0.1:%d", port)
	o.natsBroker = newNATS(t, address, nats.UserCredentialBytes(o.creds(t, nil)))
	return o
}

// creds makes a credentials file of a new user.
func (o *natsOperator) creds(t *testing.T, change func(*jwt.UserClaims)) []byte {
	t.Helper()
	return credsOf(t, o.account, change)
}

func credsOf(t *testing.T, account nkeys.KeyPair, change func(*jwt.UserClaims)) []byte {
	t.Helper()
	user := newKeys(t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(public(t, user))
	if change != nil {
		change(claims)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file, err := jwt.FormatUserConfig(encode(t, claims, account), seed)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func newKeys(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func public(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func encode(t *testing.T, claims interface {
	Encode(nkeys.KeyPair) (string, error)
}, by nkeys.KeyPair,
) string {
	t.Helper()
	text, err := claims.Encode(by)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestNATSCredentials logs in with a credentials file that is replaced by that of another user while the relay runs,
// and with files that the server does not accept.
func TestNATSCredentials(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	o := newNATSOperator(t)
	t.Run("rotation", func(t *testing.T) {
		t.Parallel()
		topic := o.topic(t)
		const life = 3 * time.Second
		short := func(c *jwt.UserClaims) { c.Expires = time.Now().Add(life).Unix() }
		path := s.write(t, "user.creds", o.creds(t, short))
		f := startTraffic(t, o, topic, "OUTBOX_NATS_CREDS_FILE="+path)
		f.add(100)
		f.awaitDrained()
		f.relay.awaitNotReady("have expired", "OUTBOX_NATS_CREDS")
		f.add(100)
		s.write(t, "user.creds", o.creds(t, nil))
		f.awaitDrained()
		f.relay.awaitReady()
		check(t, f.table, o.received(t, topic))
		f.checkUnspent(everyRow)
		f.relay.stop()
	})
	t.Run("renewal", func(t *testing.T) {
		t.Parallel()
		topic := o.topic(t)
		next := func() []byte {
			return o.creds(t, func(c *jwt.UserClaims) { c.Expires = time.Now().Add(time.Minute).Unix() })
		}
		path := s.write(t, "renewed.creds", next())
		f := startTraffic(t, o, topic, "OUTBOX_NATS_CREDS_FILE="+path)
		const connected = "connected to NATS"
		for n := 1; n <= 3; n++ {
			await(t, "another connection", func() bool {
				f.add(10)
				f.awaitDrained()
				return strings.Count(f.relay.Log(), connected) >= n
			})
			s.write(t, "renewed.creds", next())
		}
		check(t, f.table, o.received(t, topic))
		f.checkUnspent(everyRow)
		if strings.Contains(f.relay.Log(), "lost the connection") {
			t.Errorf("the server has ended a connection:\n%s", f.relay.Log())
		}
		f.relay.stop()
	})
	host, err := url.Parse(o.url())
	if err != nil {
		t.Fatal(err)
	}
	stranger := newKeys(t, nkeys.CreateAccount)
	creds := func(name string, content []byte) settings {
		return settings{"OUTBOX_NATS_CREDS_FILE=" + s.write(t, name, content)}
	}
	const refused = "refuses the login"
	checkMistakes(t, map[string]mistake{
		"no credentials":    {o.url(), nil, []string{refused, ".creds file"}},
		"user and password": {"nats://relay:hunter2@" + host.Host, nil, []string{refused, "OUTBOX_PUBLISH_URL"}},
		"of another operator": {
			o.url(), creds("stranger.creds", credsOf(t, stranger, nil)),
			[]string{refused, "OUTBOX_NATS_CREDS"},
		},
		"expired": {
			o.url(), creds("expired.creds", o.creds(t, func(c *jwt.UserClaims) {
				c.Expires = time.Now().Add(-time.Hour).Unix()
			})),
			[]string{refused, "have expired", "OUTBOX_NATS_CREDS"},
		},
		"no file of credentials": {o.url(), creds("broken.creds", []byte("hunter2")), []string{"credentials", ".creds"}},
		"without the inbox": {
			o.url(), creds("narrow.creds", o.creds(t, func(c *jwt.UserClaims) { c.Sub.Allow.Add("orders") })),
			[]string{"_INBOX.>", "grant"},
		},
	})
}
