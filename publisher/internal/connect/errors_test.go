package connect

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// verdicts are the package's classifications of an error.
type verdicts struct{ timedOut, ended, refusedTLS bool }

// The errors are those of real connections, as Go's library wraps them.
func TestErrors(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	server := authority.Issue(t, tlstest.Leaf{Name: "localhost"})
	secure := &tls.Config{
		Certificates: []tls.Certificate{server.Pair}, ClientAuth: tls.RequireAnyClientCert,
		MinVersion: tls.VersionTLS12,
	}
	for name, c := range map[string]struct {
		serve    func(net.Conn)
		client   func(net.Conn) error
		patience time.Duration
		want     verdicts
	}{
		"silence": {
			func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, read, 50 * time.Millisecond,
			verdicts{timedOut: true},
		},
		"end": {func(net.Conn) {}, read, time.Minute, verdicts{ended: true}},
		"reset": {
			func(c net.Conn) { _, _ = read(c), c.(*net.TCPConn).SetLinger(0) },
			func(c net.Conn) error {
				if _, err := c.Write([]byte{0}); err != nil {
					return err
				}
				return read(c)
			}, time.Minute,
			verdicts{ended: true},
		},
		"no client certificate": {
			func(c net.Conn) { _ = tls.Server(c, secure).HandshakeContext(t.Context()) },
			func(c net.Conn) error {
				return read(tls.Client(c, &tls.Config{
					ServerName: "localhost", RootCAs: authority.Pool, MinVersion: tls.VersionTLS12,
				}))
			}, time.Minute,
			verdicts{refusedTLS: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := net.Dial("tcp", listen(t, c.serve))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if err := client.SetDeadline(time.Now().Add(c.patience)); err != nil {
				t.Fatal(err)
			}
			err = c.client(client)
			if got := (verdicts{TimedOut(err), Ended(err), RefusedTLS(err)}); got != c.want {
				t.Errorf("%v (%T): got %+v, want %+v", err, err, got, c.want)
			}
		})
	}
}

func read(c net.Conn) error {
	_, err := c.Read(make([]byte, 1))
	return err
}

// listen returns the address of a server for one connection, which the server closes when serve returns.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		serve(c)
		_ = c.Close()
	}()
	return listener.Addr().String()
}
