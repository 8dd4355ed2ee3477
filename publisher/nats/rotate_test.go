package nats_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/tlstest"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

// awaitDown waits until the publisher has no connection.
func awaitDown(t *testing.T, p *nats.Publisher) {
	t.Helper()
	for ctx := timely(t); p.Ping(ctx) == nil; {
		if ctx.Err() != nil {
			t.Fatal("the connection goes on")
		}
	}
}

// accepts waits for the connection and publishes a few rows.
func accepts(t *testing.T, p *nats.Publisher, topic string) {
	t.Helper()
	persist(t, p)
	for i, err := range p.Publish(timely(t), hotRows(topic, 10, 2)) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// createStream creates a stream that takes every subject below a.
func createStream(t *testing.T, url string, options ...client.Option) {
	t.Helper()
	nc, err := client.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(timely(t), jetstream.StreamConfig{Name: "A", Subjects: []string{"a.>"}}); err != nil {
		t.Fatal(err)
	}
}

// A password that is changed at the server and in a file during operation is used by the next connection.
func TestPasswordIsRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users := func(password string) string {
		return fmt.Sprintf("authorization { users = [ {user: relay, password: %q} ] }", password)
	}
	server := startServer(t, dir, users("first-secret"))
	createStream(t, "nats://relay:first-secret@"+server.address)
	write(t, dir, "password", []byte("first-secret"))
	var log logtest.Log
	p := open(t, nats.Config{
		Servers: []string{server.address}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Auth: func() (nats.Auth, error) {
			password, err := os.ReadFile(filepath.Join(dir, "password"))
			return nats.Auth{User: "relay", Password: string(password)}, err
		},
	})
	accepts(t, p, "a.b")
	server.reload(t, users("second-secret"))
	awaitDown(t, p)
	ctx := timely(t)
	for refused := 0; refused < 5; { // more than once, which ends the library's own reconnecting
		err := p.Ping(ctx)
		if err == nil || ctx.Err() != nil {
			t.Fatalf("ping says %v", err)
		}
		if strings.Contains(err.Error(), "refuses the login") {
			refused++
		}
	}
	write(t, dir, "password", []byte("second-secret"))
	accepts(t, p, "a.b")
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log contains a secret:\n%s", log.String())
	}
}

// The same holds for an nkey.
func TestNkeyIsRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	user := func() (seed []byte, settings string) {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		seed, _ = pair.Seed()
		public, _ := pair.PublicKey()
		return seed, fmt.Sprintf("authorization { users = [ {nkey: %s}, {user: admin, password: admin} ] }", public)
	}
	seed, settings := user()
	server := startServer(t, dir, settings)
	createStream(t, "nats://admin:admin@"+server.address)
	write(t, dir, "seed", seed)
	p := open(t, nats.Config{Servers: []string{server.address}, Auth: func() (nats.Auth, error) {
		seed, err := os.ReadFile(filepath.Join(dir, "seed"))
		return nats.Auth{Seed: seed}, err
	}})
	accepts(t, p, "a.b")
	seed, settings = user()
	server.reload(t, settings)
	awaitDown(t, p)
	write(t, dir, "seed", seed)
	accepts(t, p, "a.b")
}

// The certificates of authority, server and client are all replaced during operation. The test covers a TLS handshake
// before the greeting, which needs the setting, and one after it.
func TestCertificatesAreRotated(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprintf("handshake first %t", first), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			renew := func() {
				a := tlstest.NewAuthority(t)
				write(t, dir, "ca.pem", a.PEM)
				for _, name := range []string{"127.0.0.1", "relay"} {
					l := a.Issue(t, tlstest.Leaf{Name: name})
					write(t, dir, name+".pem", l.Cert)
					write(t, dir, name+".key", l.Key)
				}
			}
			config := func() (*tls.Config, error) {
				ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
				if err != nil {
					return nil, err
				}
				pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "relay.pem"), filepath.Join(dir, "relay.key"))
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(ca)
				return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}, err
			}
			renew()
			server := startServer(t, dir,
				fmt.Sprintf(
					`tls { cert_file: "127.0.0.1.pem", key_file: "127.0.0.1.key", ca_file: "ca.pem", verify: true, handshake_first: %t }`,
					first))
			options := []client.Option{func(o *client.Options) error { o.TLSHandshakeFirst = first; return nil }}
			secure, err := config()
			if err != nil {
				t.Fatal(err)
			}
			createStream(t, "tls://"+server.address, append(options, client.Secure(secure))...)
			p := open(t, nats.Config{Servers: []string{server.address}, TLS: config, TLSFirst: first})
			accepts(t, p, "a.b")
			server.stop()
			awaitDown(t, p)
			renew()
			server.configure(t, fmt.Sprintf(
				`tls { cert_file: "127.0.0.1.pem", key_file: "127.0.0.1.key", ca_file: "ca.pem", verify: true, handshake_first: %t }`,
				first))
			server.start(t)
			accepts(t, p, "a.b")
		})
	}
}

// If credentials change while the old ones are still valid, a new connection is made in addition to the old one. Every
// message gets its answer, and none is sent twice. Credentials that the server does not accept change nothing.
func TestCredentialsAreRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var users []string
	for n := range 3 {
		users = append(users, fmt.Sprintf("{user: relay%d, password: secret}", n))
	}
	server := startServer(t, dir, "authorization { users = ["+strings.Join(users, ",")+"] }")
	createStream(t, "nats://relay0:secret@"+server.address)
	user := func(name string) { write(t, dir, "user", []byte(name)) }
	user("relay0")
	var log logtest.Log
	p := open(t, nats.Config{
		Servers: []string{server.address}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Auth: func() (nats.Auth, error) {
			name, err := os.ReadFile(filepath.Join(dir, "user"))
			return nats.Auth{User: string(name), Password: "secret"}, err
		},
	})
	sent := 0
	until := func(logged string, times int) {
		t.Helper()
		for ctx := timely(t); strings.Count(log.String(), logged) < times; sent++ {
			if ctx.Err() != nil {
				t.Fatalf("not %d times %q:\n%s", times, logged, log.String())
			}
			for _, err := range p.Publish(ctx, hotRows("a.b", 20, 3)) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Ping(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 3 {
		user(fmt.Sprint("relay", n))
		until("connected to NATS", n+1)
	}
	user("stranger")
	until("takes no new connection", 1)
	user("relay2")
	nc, err := client.Connect("nats://relay0:secret@" + server.address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(timely(t), "A")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != uint64(20*sent) {
		t.Errorf("%d messages of %d are stored", n, 20*sent)
	}
	if strings.Contains(log.String(), "lost the connection") || strings.Contains(log.String(), "secret") {
		t.Errorf("logged:\n%s", log.String())
	}
}
