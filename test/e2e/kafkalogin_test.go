package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// TestSecureKafka logs in to a Kafka server with TLS and SASL: with secrets that are rotated while the relay runs, and
// with mistakes that name the setting, each in its own way.
func TestSecureKafka(t *testing.T) {
	t.Parallel()
	k := newSecureKafka(t)
	k.rotations(t)
	k.mistakes(t)
}

// rotations changes a relay's credentials while it runs. Rows continue to flow with the new secrets, and neither the
// end of a session nor the end of the old secret costs an attempt or a duplicate.
func (k *secureKafka) rotations(t *testing.T) {
	ca := "OUTBOX_TLS_CA_FILE=" + k.write("ca.pem", k.authority.PEM)
	t.Run("password", func(t *testing.T) {
		topic, outbox := k.topic(t), newTable(t)
		path := k.write("password", []byte("old-hunter2\n"))
		r := startRelay(t, outbox.env("kafka+tls://"+k.secure, ca, "OUTBOX_KAFKA_SASL_MECHANISM=SCRAM-SHA-256",
			"OUTBOX_KAFKA_SASL_USERNAME=relay", "OUTBOX_KAFKA_SASL_PASSWORD_FILE="+path))
		rows := 0
		flow := func(d time.Duration) {
			for until := time.Now().Add(d); time.Now().Before(until); rows += 10 {
				outbox.insert(topic, rows, 10, 5)
				outbox.awaitDrained()
			}
		}
		flow(2 * secureSession)
		k.setPassword("new-hunter2")
		k.write("password", []byte("new-hunter2\n"))
		flow(2 * secureSession)
		k.expect(t, r, outbox, topic)
	})
	t.Run("token", func(t *testing.T) {
		oauth := func(outbox *table, more ...string) settings {
			return outbox.env("kafka+tls://"+k.secure, append(more, ca, "OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER")...)
		}
		given, asked := newTable(t), newTable(t)
		path := k.renewed(t, "token", func() string { return token("relay", 3*time.Second) })
		assertion := k.renewed(t, "assertion", func() string { return token("workload", 3*time.Second) })
		endpoint := k.tokenEndpoint(t)
		relays := map[*table]*relay{
			given: startRelay(t, oauth(given, "OUTBOX_KAFKA_OAUTH_TOKEN_FILE="+path)),
			asked: startRelay(t,
				oauth(asked, "OUTBOX_KAFKA_OAUTH_TOKEN_URL="+endpoint, "OUTBOX_KAFKA_OAUTH_CLIENT_ASSERTION_FILE="+assertion)),
		}
		topics := map[*table]string{given: k.topic(t), asked: k.topic(t)}
		rows := 0
		for began := time.Now(); time.Since(began) < 7*time.Second; rows += 10 {
			for outbox, topic := range topics {
				outbox.insert(topic, rows, 10, 5)
			}
			for outbox := range topics {
				outbox.awaitDrained()
			}
		}
		for outbox, r := range relays {
			k.expect(t, r, outbox, topics[outbox])
		}
	})
	t.Run("certificates", func(t *testing.T) {
		topic, outbox := k.topic(t), newTable(t)
		old := k.authority.Issue(t, tlstest.Leaf{Name: "relay", Expired: true})
		other := tlstest.NewAuthority(t)
		r := startRelay(t, outbox.env("kafka+tls://"+k.mutual, "OUTBOX_TLS_CA_FILE="+k.write("broker-ca.pem", other.PEM),
			"OUTBOX_TLS_CERT_FILE="+k.write("client.pem", old.Cert), "OUTBOX_TLS_KEY_FILE="+k.write("client.key", old.Key)))
		outbox.insert(topic, 0, 100, 5)
		r.awaitNotReady("unknown authority", "OUTBOX_TLS_CA_FILE")
		k.write("broker-ca.pem", k.authority.PEM)
		r.awaitNotReady("client certificate", "OUTBOX_TLS_CERT")
		renewed := k.authority.Issue(t, tlstest.Leaf{Name: "relay"})
		k.write("client.pem", renewed.Cert)
		k.write("client.key", renewed.Key)
		r.awaitReady()
		outbox.awaitDrained()
		k.expect(t, r, outbox, topic)
	})
}

// renewed keeps a secret in a file that is valid for three seconds, and replaces it long before it expires, however
// long the rows take. A service that renews tokens does the same.
func (k *secureKafka) renewed(t *testing.T, name string, next func() string) (path string) {
	t.Helper()
	path = filepath.Join(k.dir, name)
	renew := func() {
		fresh := path + ".new"
		if err := errors.Join(os.WriteFile(fresh, []byte(next()), 0o600), os.Rename(fresh, path)); err != nil {
			t.Error(err)
		}
	}
	renew()
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				renew()
			case <-t.Context().Done():
				return
			}
		}
	}()
	return path
}

// tokenEndpoint issues tokens of three seconds for assertions that have not expired. Only an assertion that is read
// again each time has not expired.
func (k *secureKafka) tokenEndpoint(t *testing.T) string {
	t.Helper()
	var mu sync.Mutex
	taken := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		given := r.PostFormValue("client_assertion")
		var claims struct{ Exp int64 }
		if parts := strings.Split(given, "."); len(parts) == 3 {
			text, _ := base64.RawURLEncoding.DecodeString(parts[1])
			_ = json.Unmarshal(text, &claims)
		}
		if r.PostFormValue("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" ||
			time.Now().Unix() > claims.Exp {
			t.Errorf("the endpoint is given %q", r.PostForm)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		taken[given] = true
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3}`, token("relay", 3*time.Second))
	}))
	t.Cleanup(func() {
		server.Close()
		if len(taken) < 2 {
			t.Errorf("the endpoint was given %d assertions", len(taken))
		}
	})
	return server.URL
}

// expect checks that every row has arrived once without a spent attempt, and that no secret was logged.
func (k *secureKafka) expect(t *testing.T, r *relay, outbox *table, topic string) {
	t.Helper()
	check(t, outbox, k.received(t, topic))
	outbox.checkUnspent(everyRow)
	if strings.Contains(r.Log(), "hunter2") || strings.Contains(r.Log(), token("relay", 0)[:20]) {
		t.Errorf("a secret is logged:\n%s", r.Log())
	}
	r.stop()
}

// mistakes starts a relay for each mistake in its settings. One line says what to change, in the log and in
// /readyz?verbose. However often the relay tries again, the log has the line once.
func (k *secureKafka) mistakes(t *testing.T) {
	path := func(name string, content []byte) string { return k.write("mistakes-"+name, content) }
	ca := "OUTBOX_TLS_CA_FILE=" + path("ca.pem", k.authority.PEM)
	stranger := tlstest.NewAuthority(t)
	expired := k.authority.Issue(t, tlstest.Leaf{Name: "localhost", Expired: true})
	good := k.authority.Issue(t, tlstest.Leaf{Name: "localhost"})
	foreign := stranger.Issue(t, tlstest.Leaf{Name: "relay"})
	login := func(mechanism, user, password string) settings {
		return settings{
			ca, "OUTBOX_KAFKA_SASL_MECHANISM=" + mechanism, "OUTBOX_KAFKA_SASL_USERNAME=" + user,
			"OUTBOX_KAFKA_SASL_PASSWORD=" + password,
		}
	}
	host := func(variable string) string {
		u, err := url.Parse(endpoint(t, variable))
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	plain := strings.TrimPrefix(k.url(), "kafka://")
	for name, m := range map[string]mistake{
		"wrong password": {
			"kafka+tls://" + k.secure, login("PLAIN", "relay", "wrong-hunter2"),
			[]string{"refuses the login", "check the credentials in OUTBOX_KAFKA_SASL"},
		},
		"wrong password, SCRAM": {
			"kafka+tls://" + k.secure, login("SCRAM-SHA-256", "relay", "wrong-hunter2"),
			[]string{"refuses the login"},
		},
		"wrong password without TLS": {
			"kafka://" + k.clear, login("PLAIN", "relay", "wrong-hunter2")[1:],
			[]string{"refuses the login"},
		},
		"unknown mechanism": {
			"kafka+tls://" + k.secure, login("SCRAM-SHA-512", "relay", "old-hunter2"),
			[]string{"SCRAM-SHA-512", "OUTBOX_KAFKA_SASL_MECHANISM", "PLAIN"},
		},
		"expired token": {
			"kafka+tls://" + k.secure,
			settings{
				ca, "OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER",
				"OUTBOX_KAFKA_OAUTH_TOKEN=" + token("relay", -time.Minute),
			},
			[]string{"refuses the login", "OUTBOX_KAFKA_OAUTH", "invalid_token"},
		},
		"no token endpoint": {
			"kafka+tls://" + k.secure,
			settings{
				ca, "OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER", "OUTBOX_KAFKA_OAUTH_TOKEN_URL=http://" + nobody,
				"OUTBOX_KAFKA_OAUTH_CLIENT_ID=relay", "OUTBOX_KAFKA_OAUTH_CLIENT_SECRET=hunter2",
			},
			[]string{"token endpoint", "OUTBOX_KAFKA_OAUTH_TOKEN_URL"},
		},
		"no login": {
			"kafka+tls://" + k.secure,
			settings{ca},
			[]string{"ended the connection", "OUTBOX_KAFKA_SASL_MECHANISM"},
		},
		"login where none is": {
			"kafka://" + plain, login("PLAIN", "relay", "old-hunter2")[1:],
			[]string{"does not take this SASL mechanism", "change OUTBOX_KAFKA_SASL_MECHANISM"},
		},
		"wrong CA": {
			"kafka+tls://" + k.secure,
			append(login("PLAIN", "relay", "old-hunter2")[1:], "OUTBOX_TLS_CA_FILE="+path("other.pem", stranger.PEM)),
			[]string{"unknown authority", "OUTBOX_TLS_CA_FILE"},
		},
		"another name": {
			"kafka+tls://" + strings.Replace(k.secure, "localhost", "127.0.0.1", 1), login("PLAIN", "relay", "old-hunter2"),
			[]string{"not accepted", "OUTBOX_TLS_SERVER_NAME"},
		},
		"expired certificate":   {"kafka+tls://" + serveTLS(t, expired), settings{ca}, []string{"has expired", "renew it"}},
		"no client certificate": {"kafka+tls://" + k.mutual, settings{ca}, []string{"client certificate", "OUTBOX_TLS_CERT"}},
		"foreign client certificate": {
			"kafka+tls://" + k.mutual,
			settings{
				ca, "OUTBOX_TLS_CERT_FILE=" + path("foreign.pem", foreign.Cert),
				"OUTBOX_TLS_KEY_FILE=" + path("foreign.key", foreign.Key),
			},
			[]string{"client certificate", "OUTBOX_TLS_CERT"},
		},
		"TLS on a plain port": {"kafka+tls://" + plain, settings{ca}, []string{"ended the connection", "kafka://"}},
		"plain on a TLS port": {"kafka://" + k.mutual, nil, []string{"kafka+tls://"}},
		"nobody":              {"kafka://" + nobody, nil, []string{"nothing listens there", "host and port"}},
		"PostgreSQL":          {"kafka://" + host("TEST_DATABASE_URL"), nil, []string{"Kafka's"}},
		"HTTP with TLS":       {"kafka+tls://" + serveHTTP(t), settings{ca}, []string{"does not speak TLS"}},
		"another server, TLS": {"kafka+tls://" + serveTLS(t, good), settings{ca}, []string{"Kafka's"}},
	} {
		// One after the other: a server that logs in many at a time may answer none of them in time. Parallel ones would
		// also wait behind all other tests.
		t.Run(name, func(t *testing.T) { checkMistake(t, m.url, m.env, m.says) })
	}
}
