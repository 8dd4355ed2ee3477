package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/xdg-go/scram"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A fakeLogin is the broker's side of a SASL exchange. The user is called relay.
type fakeLogin struct {
	mechanism string
	scram     *scram.ServerConversation
	done      bool
}

func (l *fakeLogin) step(in []byte, password string) *saslauthenticate.Response {
	refused := &saslauthenticate.Response{ErrorCode: int16(kafkago.SASLAuthenticationFailed)}
	if l.mechanism == "OAUTHBEARER" {
		switch l.done = bytes.Equal(in, []byte("n,,\x01auth=Bearer "+password+"\x01pool=blue\x01\x01")); {
		case l.done:
			return &saslauthenticate.Response{}
		case string(in) == "\x01":
			return refused
		default:
			return &saslauthenticate.Response{AuthBytes: []byte(`{"status":"invalid_token"}`)}
		}
	}
	if l.mechanism == mechanismIAM {
		if l.done = signedBy(in, password); l.done {
			return &saslauthenticate.Response{AuthBytes: []byte(`{"version":"2020_10_22","request-id":"1"}`)}
		}
		refused.ErrorMessage = "Access denied"
		return refused
	}
	if l.mechanism == "PLAIN" {
		if l.done = bytes.Equal(in, []byte("\x00relay\x00"+password)); l.done {
			return &saslauthenticate.Response{}
		}
		return refused
	}
	if l.scram == nil {
		hash := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": scram.SHA256, "SCRAM-SHA-512": scram.SHA512}[l.mechanism]
		client, err := hash.NewClient("relay", password, "")
		if err != nil {
			return refused
		}
		credentials, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt", Iters: 4096})
		if err != nil {
			return refused
		}
		server, err := hash.NewServer(func(string) (scram.StoredCredentials, error) { return credentials, nil })
		if err != nil {
			return refused
		}
		l.scram = server.NewConversation()
	}
	out, err := l.scram.Step(string(in))
	if err != nil {
		return refused
	}
	l.done = l.scram.Valid()
	return &saslauthenticate.Response{AuthBytes: []byte(out)}
}

func TestMechanisms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		f.password = "pässword"
		open := func(password string) *Publisher {
			return f.open(func(c *Config) {
				c.SASL = func() (sasl.Mechanism, error) { return Mechanism(name, "relay", password) }
			})
		}
		expect(t, name, publish(t, open("pässword"), rows("t", 0, 1, "a")), ok)
		answer := answersOf(t, open("wrong"), rows("t", 0, 1, "b"))[0]
		if publisher.ClassOf(answer) != down || publisher.ShortOf(answer) != "login refused" {
			t.Errorf("%s with a wrong password: %v", name, answer)
		}
		answer = answersOf(t, f.open(), rows("t", 0, 1, "b"))[0]
		if publisher.ClassOf(answer) != down {
			t.Errorf("%s without credentials: %v", name, answer)
		}
		expect(t, "log", f.log("t", 0), "a")
	}
}

func TestMechanismShowsNoSecret(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SCRAM-SHA-512", "NTLM"} {
		if _, err := Mechanism(name, "relay", "secret\u0000"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	f := newFakeTLSCluster(t, 1, &tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS12})
	f.topic("t", 0)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for name, test := range map[string]struct {
		config *tls.Config
		class  publisher.Class
		short  string
	}{
		"trusted by address": {&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ok, ""},
		"trusted by name": {
			&tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}, ok, "",
		},
		"another name": {
			&tls.Config{RootCAs: roots, ServerName: "kafka.invalid", MinVersion: tls.VersionTLS12}, down,
			"certificate not trusted",
		},
		"unknown authority": {
			&tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}, down,
			"certificate not trusted",
		},
		"plain TCP": {nil, down, "connection ended"},
	} {
		answer := answersOf(t, f.open(func(c *Config) {
			if test.config != nil {
				c.TLS = func() (*tls.Config, error) { return test.config, nil }
			}
		}), rows("t", 0, 1, name))[0]
		if publisher.ClassOf(answer) != test.class || publisher.ShortOf(answer) != test.short {
			t.Errorf("%s: %v (%s)", name, answer, publisher.ShortOf(answer))
		}
	}
}

// A broker that wants a client certificate refuses none, an expired one and one of another authority in the same way,
// which the answer names. A certificate that is renewed is used by the next connection.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	f := newFakeTLSCluster(t, 1, &tls.Config{
		Certificates: []tls.Certificate{authority.Issue(t, tlstest.Leaf{Name: "127.0.0.1"}).Pair},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool, MinVersion: tls.VersionTLS12,
	})
	f.topic("t", 0)
	good := authority.Issue(t, tlstest.Leaf{Name: "relay"}).Pair
	for name, certificates := range map[string][]tls.Certificate{
		"none":    nil,
		"expired": {authority.Issue(t, tlstest.Leaf{Name: "relay", Expired: true}).Pair},
		"foreign": {tlstest.NewAuthority(t).Issue(t, tlstest.Leaf{Name: "relay"}).Pair},
	} {
		var renewed atomic.Bool
		p := f.open(func(c *Config) {
			c.TLS = func() (*tls.Config, error) {
				config := &tls.Config{RootCAs: authority.Pool, Certificates: certificates, MinVersion: tls.VersionTLS12}
				if renewed.Load() {
					config.Certificates = []tls.Certificate{good}
				}
				return config, nil
			}
		})
		answer := answersOf(t, p, rows("t", 0, 1, name))[0]
		if publisher.ClassOf(answer) != down || publisher.ScopeOf(answer) != publisher.ScopeDestination ||
			publisher.ShortOf(answer) != "TLS refused" || !strings.Contains(answer.Error(), "TLS.Certificates") {
			t.Errorf("%s: %v (%s)", name, answer, publisher.ShortOf(answer))
		}
		renewed.Store(true)
		eventually(t, func() bool { return publish(t, p, rows("t", 0, 1, name))[0] == ok })
	}
}

// Credentials are requested again when a connection is made, and do not appear in errors or logs.
func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.password = "secret-old"
	password := "secret-wrong"
	var log bytes.Buffer
	p := f.open(func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.SASL = func() (sasl.Mechanism, error) { return Mechanism("PLAIN", "relay", password) }
	})
	answer := answersOf(t, p, rows("t", 0, 1, "a"))[0]
	if publisher.ClassOf(answer) != down || publisher.ShortOf(answer) != "login refused" {
		t.Errorf("a wrong password: %v", answer)
	}
	err := p.Ping(t.Context())
	if err == nil || strings.Contains(err.Error()+answer.Error()+log.String(), "secret") {
		t.Errorf("ping: %v; log: %s", err, log.String())
	}
	password = "secret-old"
	eventually(t, func() bool { return answersOf(t, p, rows("t", 0, 1, "a"))[0] == nil })
	f.set(func() { f.password = "secret-new" })
	f.setDown(0, true)
	f.setDown(0, false)
	answer = answersOf(t, p, rows("t", 0, 1, "b"))[0]
	if class := publisher.ClassOf(answer); class != unsure && class != down { // the old connection was lost with it
		t.Errorf("the old password: %v", answer)
	}
	password = "secret-new"
	eventually(t, func() bool { return answersOf(t, p, rows("t", 0, 1, "b"))[0] == nil })
}

func plainLogin(password string) func() (sasl.Mechanism, error) {
	return func() (sasl.Mechanism, error) { return Mechanism("PLAIN", "relay", password) }
}
