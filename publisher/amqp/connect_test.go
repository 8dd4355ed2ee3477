package amqp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// What Ping says must lead to the remedy and must not tell the password.
func TestPingSaysWhatToChange(t *testing.T) {
	t.Parallel()
	real, err := url.Parse(publishertest.Endpoint(t, "TEST_AMQP_URL"))
	if err != nil {
		t.Fatal(err)
	}
	closed := listen(t)
	_ = closed.Close()
	silent := listen(t)
	t.Cleanup(func() { _ = silent.Close() })
	const password = "pa$$w0rd"
	for _, test := range []struct {
		name, url, says string
	}{
		{"wrong password", "amqp://nobody:" + password + "@" + real.Host + "/", "check user and password"},
		{"unknown vhost", real.Scheme + "://" + real.User.String() + "@" + real.Host + "/no-such-vhost", "no-such-vhost"},
		{"nothing listens", "amqp://nobody:" + password + "@" + closed.Addr().String(), "check that RabbitMQ runs there"},
		{"unknown host", "amqp://nobody:" + password + "@no-such-host.invalid", "cannot be resolved"},
		{"no answer", "amqp://nobody:" + password + "@" + silent.Addr().String(), "does not answer"},
		{"no TLS", "amqps://nobody:" + password + "@" + real.Host, "TLS"},
		{"wrong scheme", "http://nobody:" + password + "@" + real.Host, "amqp://"},
		{"unescaped password", "amqp://nobody:" + password + "%zz@" + real.Host, "percent-encode"},
		{"no port", "amqp://nobody:" + password + "@" + real.Hostname() + ":x", "host:port"},
		{"unknown mechanism", "amqp://nobody:" + password + "@" + real.Host + "?auth_mechanism=scram", "auth_mechanism"},
		{"other mechanism", "amqp://nobody:" + password + "@" + real.Host + "?auth_mechanism=amqplain", "check user and password"},
		{"no scheme", "localhost:5672", "amqp://"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := openAt(t, "", test.url)
			err := p.Ping(within(t, 2*time.Second))
			want(t, "the ping", err, publisher.Unavailable)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("ping says %v, want something with %q", err, test.says)
			}
			if strings.Contains(fmt.Sprint(err), password) {
				t.Errorf("ping tells the password: %v", err)
			}
		})
	}
	unreadable := amqp.New(amqp.Config{URL: func() (string, error) { return "", errors.New("no such file") }})
	defer unreadable.Close()
	if err := unreadable.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("ping says %v, want the cause", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, pool := certificate(t, "rabbit.test")
	plain := listen(t)
	f := newFake(t, tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{certificate}}), func(m *sent) { m.ack() })
	config := amqp.Config{
		URL: func() (string, error) { return "amqps://guest:guest@" + f.listener.Addr().String(), nil },
		TLS: &tls.Config{RootCAs: pool, ServerName: "rabbit.test"},
	}
	p := amqp.New(config)
	defer p.Close()
	for i, err := range p.Publish(within(t, 10*time.Second), numbered(2000, 7, "topic")) {
		want(t, fmt.Sprint("message ", i), err, publisher.Accepted)
	}

	config.TLS = &tls.Config{RootCAs: pool}
	stranger := amqp.New(config)
	defer stranger.Close()
	if err := stranger.Ping(within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("ping of a server with another name says %v, want something of its certificate", err)
	}
	if config.TLS.ServerName != "" {
		t.Errorf("the caller's TLS configuration was changed")
	}
}

// certificate returns a certificate for a name, and the pool of authorities that trusts it.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, IPAddresses: []net.IP{},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
