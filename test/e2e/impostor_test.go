package e2e

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// nobody is an address on which nothing listens.
const nobody = "127.0.0.1:1"

// databaseURL returns the URL of the tests' database with a password, after a change.
func databaseURL(t testing.TB, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(endpoint(t, "TEST_DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "hunter2")
	change(u)
	return u.String()
}

// refusingPostgres returns the address of a server that asks for the password and refuses it, as PostgreSQL does. The
// tests' own server accepts every user without one.
func refusingPostgres(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	go serve(listener, func(c net.Conn) {
		backend := pgproto3.NewBackend(c, c)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationCleartextPassword{})
		if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
			return
		}
		if _, err := backend.Receive(); err != nil {
			return
		}
		backend.Send(&pgproto3.ErrorResponse{
			Severity: "FATAL", Code: "28P01",
			Message: `password authentication failed for user "postgres"`,
		})
		_ = backend.Flush() // the client may be gone
	})
	return listener.Addr().String()
}

// silent returns the address of a server that accepts connections and never answers.
func silent(t testing.TB) string {
	t.Helper()
	listener := listen(t)
	go serve(listener, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) // until the client disconnects
	return listener.Addr().String()
}

// hostOf returns host:port of one of the shared services.
func hostOf(t *testing.T, variable string) string {
	t.Helper()
	u, err := url.Parse(endpoint(t, variable))
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// serveTLS returns the address of a server that presents the given certificate and speaks another protocol.
func serveTLS(t *testing.T, l tlstest.Leaf) string {
	t.Helper()
	listener := tls.NewListener(listen(t),
		&tls.Config{Certificates: []tls.Certificate{l.Pair}, MinVersion: tls.VersionTLS12})
	go serve(listener, func(c net.Conn) { _, _ = c.Write([]byte("hello, this is another protocol\r\n")) })
	return strings.Replace(listener.Addr().String(), "127.0.0.1", "localhost", 1)
}

// serveHTTP returns the address of a web server.
func serveHTTP(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// serve calls answer for each connection and closes the connection when answer returns.
func serve(listener net.Listener, answer func(net.Conn)) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			answer(c)
			_ = c.Close()
		}()
	}
}
