package rabbitmq

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// throughProxies returns two publishers that reach the broker through a proxy in this process, one of
// them with TLS up to the proxy. So every broker will do, and TLS costs what it costs at both of its ends.
func throughProxies(ctx context.Context, broker string) (secure, plain *ours, err error) {
	uri, err := amqp091.ParseURI(broker)
	if err != nil {
		return nil, nil, fmt.Errorf("the address is no AMQP URL")
	}
	target := net.JoinHostPort(uri.Host, fmt.Sprint(uri.Port))
	server, client, err := newTLS()
	if err != nil {
		return nil, nil, err
	}
	open := func(server *tls.Config, config amqp.Config, scheme string) (*ours, error) {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		stop := proxy(ctx, listener, server, target)
		address := url.URL{Scheme: scheme, User: url.UserPassword(uri.Username, uri.Password), Host: listener.Addr().String(), Path: "/" + url.PathEscape(uri.Vhost)}
		if uri.Vhost == "/" {
			address.Path = "/"
		}
		config.URL = func() (string, error) { return address.String(), nil }
		o, err := newOurs(ctx, config)
		if err != nil {
			stop()
			return nil, err
		}
		o.after = stop
		return o, nil
	}
	if plain, err = open(nil, amqp.Config{}, "amqp"); err != nil {
		return nil, nil, err
	}
	if secure, err = open(server, amqp.Config{TLS: client}, "amqps"); err != nil {
		plain.close()
		return nil, nil, err
	}
	return secure, plain, nil
}

// proxy forwards connections until stop is called, which waits for all of them.
func proxy(ctx context.Context, listener net.Listener, server *tls.Config, target string) (stop func()) {
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if server != nil {
				conn = tls.Server(conn, server)
			}
			group.Go(func() {
				defer conn.Close()
				broker, err := new(net.Dialer).DialContext(ctx, "tcp", target)
				if err != nil {
					return
				}
				defer broker.Close()
				group.Go(func() {
					_, _ = io.Copy(conn, broker)
					_ = conn.Close()
				})
				_, _ = io.Copy(broker, conn)
			})
		}
	})
	return func() {
		_ = listener.Close()
		group.Wait()
	}
}

// newTLS returns both sides' configuration with a certificate made for them.
func newTLS() (server, client *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	server = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}
