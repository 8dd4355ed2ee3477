package doctor

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A connection that may have reached an unintended server, or may be read on the way, is found; a connection within
// this host is not.
func TestEncryption(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	root := filepath.Join(t.TempDir(), "root.crt")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	there := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 5432}
	here, socket := &net.TCPAddr{IP: net.IPv6loopback, Port: 5432}, &net.UnixAddr{Name: "/run/postgresql", Net: "unix"}
	for _, c := range []struct {
		to   net.Addr
		mode string // sslmode, and what follows it
		want bool
	}{
		{there, "disable", false},
		{there, "prefer", false},
		{there, "allow", false},
		{there, "require", false},
		{there, "require&sslrootcert=" + root, true}, // like verify-ca
		{there, "verify-ca&sslrootcert=" + root, true},
		{there, "verify-full", true},
		{here, "disable", true},
		{socket, "disable", true},
	} {
		config, err := pgconn.ParseConfig("postgres://u:p@db/shop?sslmode=" + c.mode)
		if err != nil {
			t.Fatal(err)
		}
		if protected(c.to, config.TLSConfig) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// away is a connection that seems to lead to another host.
type away struct{ net.Conn }

func (away) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 5432} }

// The connection for ownership is examined like the other one, and told of if only it is not protected.
func TestEncryptionOfOwnership(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return away{conn}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	work, err := look(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, protected := range []bool{true, false} {
		work.protected = protected
		found := (&Doctor{}).direct(t.Context(), conn, work)
		if told := found[0].Check == "encryption" && found[0].Severity == finding.Warning; told != protected {
			t.Errorf("the other connection is protected: %t: %+v", protected, found)
		}
	}
}
