package amqp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/internal/tlstest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

const password = "pa$$w0rd"

// A mistake is a mistake in the settings, with the words that must lead to its remedy.
type mistake struct {
	url       string
	tls       *tls.Config
	mechanism string
	says      string
}

// check makes the mistake. Each attempt to connect gives the same single line, which names the remedy and reveals no
// password. The log does not grow with the attempts.
func (m mistake) check(t *testing.T) {
	t.Helper()
	var dials atomic.Int64
	log := &logtest.Log{}
	config := amqp.Config{
		URL: func() (string, error) { return m.url, nil }, Mechanism: m.mechanism,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	if m.tls != nil {
		config.TLS = func() (*tls.Config, error) { return m.tls, nil }
	}
	p := amqp.New(config)
	defer p.Close()
	err := p.Ping(within(t, 20*time.Second))
	want(t, "the ping", err, publisher.Unavailable)
	if err == nil {
		return
	}
	t.Log(err)
	if !strings.Contains(err.Error(), m.says) {
		t.Errorf("ping says %q, want something with %q", err, m.says)
	}
	if strings.ContainsAny(err.Error(), "\n\r") || strings.Contains(err.Error(), password) {
		t.Errorf("ping says more than one line, or contains the password: %q", err)
	}
	first := dials.Load()
	await(t, func() bool {
		again := p.Ping(within(t, 20*time.Second))
		if again == nil || again.Error() != err.Error() {
			t.Fatalf("a later ping says %v", again)
		}
		return dials.Load() > first || first == 0
	})
	if log.String() != "" {
		t.Errorf("the log holds\n%s", log)
	}
}

// hostOf returns host:port of a service.
func hostOf(t *testing.T, variable string) string {
	t.Helper()
	u, err := url.Parse(services.Endpoint(t, variable))
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	rabbit := hostOf(t, "TEST_AMQP_URL")
	kafka, nats, postgres := hostOf(t, "TEST_KAFKA_URL"), hostOf(t, "TEST_NATS_URL"), hostOf(t, "TEST_DATABASE_URL")
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	http := web.Listener.Addr().String()
	closed := listen(t)
	_ = closed.Close()
	silent := listen(t)
	t.Cleanup(func() { _ = silent.Close() })
	const user = "nobody:" + password + "@"
	for name, m := range map[string]mistake{
		"wrong password": {
			url:  "amqp://" + user + rabbit + "/",
			says: `refuses the login of user "nobody": check user and password`,
		},
		"wrong password, AMQPLAIN": {url: "amqp://" + user + rabbit, mechanism: "AMQPLAIN", says: "check user and password"},
		"mechanism in the URL": {
			url:  "amqp://" + user + rabbit + "?auth_mechanism=amqplain",
			says: "check user and password",
		},
		"mechanism not offered": {
			url: "amqp://" + user + rabbit, mechanism: "EXTERNAL",
			says: "enable its plugin rabbitmq_auth_mechanism_ssl",
		},
		"unknown mechanism": {
			url:  "amqp://" + user + rabbit + "?auth_mechanism=scram",
			says: `auth_mechanism "scram"`,
		},
		"unknown vhost": {url: "amqp://guest:guest@" + rabbit + "/no-such-vhost", says: "no-such-vhost"},
		"nothing listens": {
			url:  "amqp://" + user + closed.Addr().String(),
			says: "nothing listens there: check that it runs",
		},
		"unknown host":            {url: "amqp://" + user + "no-such-host.invalid", says: "cannot be resolved"},
		"no answer":               {url: "amqp://" + user + silent.Addr().String(), says: "does not answer"},
		"no answer to TLS":        {url: "amqps://" + user + silent.Addr().String(), says: "does not answer"},
		"port of Kafka":           {url: "amqp://" + user + kafka, says: "check host and port in URL"},
		"port of NATS":            {url: "amqp://" + user + nats, says: "check host and port in URL"},
		"port of PostgreSQL":      {url: "amqp://" + user + postgres, says: "check host and port in URL"},
		"port of HTTP":            {url: "amqp://" + user + http, says: "host and port in URL"},
		"port of Kafka, TLS":      {url: "amqps://" + user + kafka, says: "check the port"},
		"port of NATS, TLS":       {url: "amqps://" + user + nats, says: "correct host and port in URL"},
		"port of PostgreSQL, TLS": {url: "amqps://" + user + postgres, says: "check the port"},
		"port of HTTP, TLS":       {url: "amqps://" + user + http, says: "correct host and port in URL"},
		"TLS to the port without": {url: "amqps://" + user + rabbit, says: "write amqp:// if"},
		"wrong scheme":            {url: "http://" + user + rabbit, says: "amqp://"},
		"no scheme":               {url: "localhost:5672", says: "amqp://"},
		"unescaped password":      {url: "amqp://nobody:" + password + "%zz@" + rabbit, says: "percent-encode"},
		"TLS in the URL":          {url: "amqps://" + user + rabbit + "?cacertfile=/ca.pem", says: "settings for TLS"},
		"no port":                 {url: "amqp://" + user + "localhost:x", says: "host:port"},
		"all of several hosts": {
			url:  "amqp://" + user + closed.Addr().String() + "," + rabbit,
			says: "nothing listens there: check that it runs, and host and port in URL; RabbitMQ at " + rabbit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.check(t)
		})
	}
	unreadable := amqp.New(amqp.Config{URL: func() (string, error) { return "", errors.New("no such file") }})
	defer unreadable.Close()
	if err := unreadable.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("ping says %v, want the cause", err)
	}
}

// trusting returns TLS settings with the test's own authorities.
func trusting(pool *x509.CertPool, name string) func() (*tls.Config, error) {
	return func() (*tls.Config, error) {
		return &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}, nil
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	certificate := authority.Issue(t, tlstest.Leaf{Name: "rabbit.test"}).Pair
	f := newFake(t, tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{certificate}}), func(m *sent) {
		m.ack()
	})
	p := amqp.New(amqp.Config{
		URL: func() (string, error) { return "amqps://guest:guest@" + f.listener.Addr().String(), nil },
		TLS: trusting(authority.Pool, "rabbit.test"),
	})
	defer p.Close()
	for i, err := range p.Publish(within(t, 10*time.Second), numbered(2000, 7, "topic")) {
		want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
	}
}
