package nats_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/internal/tlstest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// Whatever is wrong with the connection, the answers contain one line that says what to change. /readyz shows the line,
// and the relay logs it once. The publisher itself logs no further line.
func TestTroubles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := tlstest.NewAuthority(t)
	for name, l := range map[string]tlstest.Leaf{
		"127.0.0.1": {Name: "127.0.0.1"}, "expired": {Name: "127.0.0.1", Expired: true},
		"other.example": {Name: "other.example"},
	} {
		l = a.Issue(t, l)
		write(t, dir, name+".pem", l.Cert)
		write(t, dir, name+".key", l.Key)
	}
	write(t, dir, "ca.pem", a.PEM)
	serve := func(settings string) string {
		own := t.TempDir()
		for _, name := range []string{
			"127.0.0.1.pem", "127.0.0.1.key", "expired.pem", "expired.key", "other.example.pem", "other.example.key",
			"ca.pem",
		} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			write(t, own, name, content)
		}
		return startServer(t, own, settings).address
	}
	const users = `authorization { users = [ {user: relay, password: good} ] }`
	withTLS := func(name, more string) string {
		return fmt.Sprintf(`tls { cert_file: "%s.pem", key_file: "%s.key", ca_file: "ca.pem" %s }`, name, name, more)
	}
	login, plain := serve(users), serve("")
	secure, first := serve(withTLS("127.0.0.1", "")), serve(withTLS("127.0.0.1", ", handshake_first: true"))
	verify := serve(withTLS("127.0.0.1", ", verify: true"))
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	webTLS := httptest.NewTLSServer(nil)
	t.Cleanup(webTLS.Close)
	at := func(variable string) string {
		u, err := url.Parse(services.Endpoint(t, variable))
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	seed := func() []byte {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		seed, _ := pair.Seed()
		return seed
	}()
	jwt := fmt.Appendf(nil,
		"-----BEGIN NATS USER JWT-----\nthe.jwt\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY "+
			"SEED-----\n%s\n------END USER NKEY "+
			"SEED------\n", seed)
	as := func(auth nats.Auth) func() (nats.Auth, error) { return func() (nats.Auth, error) { return auth, nil } }
	trusting := func(pool *x509.CertPool) func() (*tls.Config, error) {
		return func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil }
	}
	trust := trusting(a.Pool)
	strange := trusting(tlstest.NewAuthority(t).Pool)
	const greeting, port = "sends no greeting of a NATS server", "correct host and port"

	for name, test := range map[string]struct {
		config nats.Config
		want   []string
	}{
		"no login": {nats.Config{Servers: []string{login}}, []string{"refuses the login", "in Auth"}},
		"wrong password": {
			nats.Config{Servers: []string{login}, Auth: as(nats.Auth{User: "relay", Password: "hush"})},
			[]string{"refuses the login", "correct user and password"},
		},
		"wrong user": {
			nats.Config{Servers: []string{login}, Auth: as(nats.Auth{User: "hush", Password: "good"})},
			[]string{"refuses the login"},
		},
		"token for a user": {
			nats.Config{Servers: []string{login}, Auth: as(nats.Auth{Token: "hush"})},
			[]string{"refuses the login"},
		},
		"nkey for a user": {nats.Config{Servers: []string{login}, Auth: as(nats.Auth{Seed: seed})}, []string{"NATS server"}},
		"creds for a user": {
			nats.Config{Servers: []string{login}, Auth: as(nats.Auth{Credentials: jwt})},
			[]string{"NATS server"},
		},
		"unusable creds": {
			nats.Config{Servers: []string{login}, Auth: as(nats.Auth{Credentials: []byte("hush")})},
			[]string{"credentials cannot be used", "give the whole .creds file"},
		},
		"unusable nkey": {
			nats.Config{Servers: []string{login}, Auth: as(nats.Auth{Seed: []byte("hush")})},
			[]string{"credentials cannot be used", "begins with SU"},
		},
		"unreadable file": {
			nats.Config{Servers: []string{login}, Auth: func() (nats.Auth, error) { return nats.Auth{}, os.ErrPermission }},
			[]string{"credentials cannot be used", "permission denied"},
		},
		"unreadable CA": {
			nats.Config{Servers: []string{secure}, TLS: func() (*tls.Config, error) { return nil, os.ErrNotExist }},
			[]string{"the TLS settings cannot be used", "TLS.RootCAs"},
		},
		"wrong CA": {
			nats.Config{Servers: []string{secure}, TLS: strange},
			[]string{"unknown authority", "TLS.RootCAs"},
		},
		"no CA": {nats.Config{Servers: []string{secure}}, []string{"wants TLS", "nats+tls://"}},
		"expired": {
			nats.Config{Servers: []string{serve(withTLS("expired", ""))}, TLS: trust},
			[]string{"is valid from", "renew it"},
		},
		"another name": {
			nats.Config{Servers: []string{serve(withTLS("other.example", ""))}, TLS: trust},
			[]string{"not accepted", "TLS.ServerName"},
		},
		"no certificate": {nats.Config{Servers: []string{verify}, TLS: trust}, []string{"TLS.Certificates"}},
		"no TLS there":   {nats.Config{Servers: []string{plain}, TLS: trust}, []string{"offers no TLS", "write nats://"}},
		"first, not there": {
			nats.Config{Servers: []string{secure}, TLS: trust, TLSFirst: true},
			[]string{"greets before TLS", "remove TLSFirst"},
		},
		"first, no TLS": {
			nats.Config{Servers: []string{plain}, TLS: trust, TLSFirst: true},
			[]string{"greets before TLS", "remove TLSFirst"},
		},
		"not first, there": {nats.Config{Servers: []string{first}, TLS: trust}, []string{greeting, "TLSFirst"}},
		"PostgreSQL":       {nats.Config{Servers: []string{at("TEST_DATABASE_URL")}}, []string{greeting, port}},
		"Kafka":            {nats.Config{Servers: []string{at("TEST_KAFKA_URL")}}, []string{greeting, port}},
		"RabbitMQ":         {nats.Config{Servers: []string{at("TEST_AMQP_URL")}}, []string{greeting, port}},
		"HTTP":             {nats.Config{Servers: []string{web.Listener.Addr().String()}}, []string{greeting, port}},
		"HTTP and TLS": {
			nats.Config{Servers: []string{web.Listener.Addr().String()}, TLS: trust, TLSFirst: true},
			[]string{"does not speak TLS", "host and port in Servers"},
		},
		"HTTPS": {
			nats.Config{Servers: []string{webTLS.Listener.Addr().String()}, TLS: trusting(pool(webTLS)), TLSFirst: true},
			[]string{"does not answer", "host and port in Servers"},
		},
		"PostgreSQL, TLS": {
			nats.Config{Servers: []string{at("TEST_DATABASE_URL")}, TLS: trust, TLSFirst: true},
			[]string{"TLS session", "check the port"},
		},
		"nobody": {
			nats.Config{Servers: []string{"127.0.0.1:1"}},
			[]string{"nothing listens there", "host and port in Servers"},
		},
		"nobody's name": {
			nats.Config{Servers: []string{"nats.invalid:4222"}},
			[]string{"cannot be resolved", "correct the host"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logtest.Log
			test.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
			p := open(t, test.config)
			p.GiveUpAfter(3 * time.Second)
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				err := p.Ping(ctx)
				cancel()
				if err == nil {
					t.Fatal("ping succeeds")
				}
				if publisher.ClassOf(err) != publisher.Unavailable {
					t.Errorf("%v is %v", err, publisher.ClassOf(err))
				}
				address := test.config.Servers[0]
				if u, err := url.Parse(address); err == nil && u.Host != "" {
					address = u.Host
				}
				for _, part := range append(test.want, address) {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q does not say %q", err, part)
					}
				}
				if strings.ContainsAny(err.Error(), "\n\r") || strings.Contains(err.Error(), "hush") || len(err.Error()) > 400 {
					t.Errorf("%q is more than a line, or contains a secret", err)
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if lines := strings.Count(log.String(), "\n"); lines > 0 {
				t.Errorf("the publisher logs %d lines beside the relay:\n%s", lines, log.String())
			}
		})
	}
}

func pool(s *httptest.Server) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.Certificate())
	return p
}

// A server that has answered at this address before is not taken for a wrong port when it is frozen.
func TestFrozenServerIsNotAWrongPort(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), "")
	p := open(t, nats.Config{Servers: []string{server.address}})
	p.GiveUpAfter(time.Second)
	persist(t, p)
	server.freeze(t, time.Hour)
	for ctx := timely(t); ; {
		call, cancel := context.WithTimeout(ctx, time.Second)
		err := p.Ping(call)
		cancel()
		switch {
		case err != nil && strings.Contains(err.Error(), "port"):
			t.Fatal(err)
		case err != nil && strings.Contains(err.Error(), "sends nothing any more"):
			return
		case ctx.Err() != nil:
			t.Fatalf("the last answer is %v", err)
		}
	}
}
