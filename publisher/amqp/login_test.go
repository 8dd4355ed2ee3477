package amqp_test

import (
	"crypto/tls"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// mistakes are those that need a broker with TLS and client certificates.
func (o *ownBroker) mistakes(t *testing.T) {
	user := "nobody:" + password + "@"
	other := tlstest.NewAuthority(t)
	trusted := func(certificates ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: o.authority.Pool, Certificates: certificates, MinVersion: tls.VersionTLS12}
	}
	nameless := trusted()
	nameless.ServerName = "rabbit.test"
	expired := newFake(t,
		tls.NewListener(listen(t), &tls.Config{Certificates: []tls.Certificate{o.authority.Issue(t,
			tlstest.Leaf{Name: "localhost", Expired: true}).Pair}}), nil)
	_, port, _ := strings.Cut(expired.listener.Addr().String(), ":")
	plain := strings.TrimSuffix(strings.TrimPrefix(o.harness.url, "amqp://guest:guest@"), "/")
	for name, m := range map[string]mistake{
		"system's authorities": {
			url:  "amqps://" + user + o.secure,
			says: "signed by unknown authority",
		},
		"wrong authority": {
			url: "amqps://" + user + o.secure, tls: &tls.Config{RootCAs: other.Pool},
			says: "TLS.RootCAs",
		},
		"wrong name":              {url: "amqps://" + user + o.secure, tls: nameless, says: "TLS.ServerName"},
		"expired certificate":     {url: "amqps://" + user + "localhost:" + port, tls: trusted(), says: "renew it"},
		"wrong password over TLS": {url: "amqps://" + user + o.secure, tls: trusted(), says: "check user and password"},
		"no TLS to the port with": {url: "amqp://" + user + o.secure, says: "amqps://"},
		"TLS to the port without": {url: "amqps://" + user + plain, tls: trusted(), says: "does not speak TLS"},
		"EXTERNAL without certificate": {
			url: "amqps://" + user + o.secure, tls: trusted(), mechanism: "EXTERNAL",
			says: "TLS.Certificates",
		},
		"EXTERNAL, no such user": {
			url: "amqps://" + o.secure,
			tls: trusted(o.authority.Issue(t, tlstest.Leaf{Name: "stranger"}).Pair), mechanism: "EXTERNAL",
			says: "create the user",
		},
		"client of unknown authority": {
			url: "amqps://" + o.secure, tls: trusted(other.Issue(t, tlstest.Leaf{Name: "guest"}).Pair),
			mechanism: "EXTERNAL", says: "TLS.Certificates",
		},
		"expired client certificate": {
			url: "amqps://" + o.secure,
			tls: trusted(o.authority.Issue(t, tlstest.Leaf{Name: "guest", Expired: true}).Pair), mechanism: "EXTERNAL",
			says: "TLS.Certificates",
		},
		"mechanism AMQPLAIN not there": {
			url: "amqps://" + user + o.secure, tls: trusted(), mechanism: "AMQPLAIN",
			says: "change Mechanism",
		},
		"vhost of the certificate user": {
			url: "amqps://" + o.secure + "/none",
			tls: trusted(o.authority.Issue(t, tlstest.Leaf{Name: "guest"}).Pair), mechanism: "EXTERNAL",
			says: `virtual host "none"`,
		},
	} {
		// These are not parallel: they are quick, and parallel ones would wait for the other tests and delay what
		// follows.
		t.Run(name, m.check)
	}
}

// A password that is changed at the broker and in the file is used for the next connection.
func (o *ownBroker) rotatedPassword(t *testing.T) {
	o.user(t, "rotating", `"password": "first"`, "")
	o.allow(t, "rotating", ".*")
	host := strings.TrimPrefix(o.harness.url, "amqp://guest:guest@")
	path := write(t, t.TempDir(), "url", []byte("amqp://rotating:first@"+host))
	p := amqp.New(amqp.Config{URL: func() (string, error) {
		url, err := os.ReadFile(path)
		return string(url), err
	}})
	defer p.Close()
	topic := o.harness.Topic(t)
	publish := func() error { return p.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0] }
	want(t, "a message", publish(), publisher.Accepted)

	o.user(t, "rotating", `"password": "second"`, "")
	want(t, "a message on the connection that is there", publish(), publisher.Accepted)
	o.closeConnections(t, "rotating")
	await(t, func() bool {
		err := publish()
		return err != nil && publisher.ShortOf(err) == "login refused"
	})
	write(t, "", path, []byte("amqp://rotating:second@"+host))
	await(t, func() bool { return publish() == nil })
}

// A client certificate that is renewed on disk is used for the next connection.
func (o *ownBroker) rotatedCertificate(t *testing.T) {
	o.user(t, "certified", `"password_hash": ""`, "")
	o.allow(t, "certified", ".*")
	var current atomic.Pointer[tls.Certificate]
	first := o.authority.Issue(t, tlstest.Leaf{Name: "certified"})
	current.Store(&first.Pair)
	p := amqp.New(amqp.Config{
		URL: func() (string, error) { return "amqps://" + o.secure, nil }, Mechanism: "EXTERNAL",
		TLS: func() (*tls.Config, error) {
			return &tls.Config{
				RootCAs: o.authority.Pool, Certificates: []tls.Certificate{*current.Load()},
				MinVersion: tls.VersionTLS12,
			}, nil
		},
	})
	defer p.Close()
	topic := o.harness.Topic(t)
	publish := func() error { return p.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0] }
	want(t, "a message", publish(), publisher.Accepted)
	// Only the broker knows the user of a certificate.
	named := numbered(5, 0, topic)
	named[1].Headers, named[3].Headers = []publisher.Header{{Name: "user_id", Value: "stranger"}}, []publisher.Header{{
		Name:  "user_id",
		Value: "certified",
	}}
	for i, err := range p.Publish(within(t, 10*time.Second), named) {
		if i == 1 {
			want(t, "a message of another user", err, publisher.Permanent)
		} else {
			want(t, "its neighbour", err, publisher.Accepted)
		}
	}

	stranger := o.authority.Issue(t, tlstest.Leaf{Name: "stranger"})
	current.Store(&stranger.Pair)
	o.closeConnections(t, "certified")
	await(t, func() bool {
		err := publish()
		return err != nil && publisher.ShortOf(err) == "login refused"
	})
	second := o.authority.Issue(t, tlstest.Leaf{Name: "certified"})
	current.Store(&second.Pair)
	await(t, func() bool { return publish() == nil })
}
