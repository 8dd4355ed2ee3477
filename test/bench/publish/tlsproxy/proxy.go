// Package tlsproxy puts TLS in front of a broker, so that any broker can be used to measure the cost of TLS at both
// ends.
package tlsproxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"sync"
	"time"
)

// Start forwards connections from a separate port to the target until stop is called, which waits for all of them.
// server is nil for plain TCP.
func Start(ctx context.Context, server *tls.Config, target string) (address string, stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	return listener.Addr().String(), forward(ctx, listener, server, target), nil
}

func forward(ctx context.Context, listener net.Listener, server *tls.Config, target string) (stop func()) {
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

// Configs returns the configuration of both sides with a certificate made for them.
func Configs() (server, client *tls.Config, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	// Java accepts no certificate without a subject.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "benchmark"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter:    time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
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
	server = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}
	return server, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}
