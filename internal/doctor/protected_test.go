package doctor

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
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
	away := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 5432}
	here, socket := &net.TCPAddr{IP: net.IPv6loopback, Port: 5432}, &net.UnixAddr{Name: "/run/postgresql", Net: "unix"}
	for _, c := range []struct {
		to   net.Addr
		mode string // sslmode, and what follows it
		want bool
	}{
		{away, "disable", false},
		{away, "prefer", false},
		{away, "allow", false},
		{away, "require", false},
		{away, "require&sslrootcert=" + root, true}, // like verify-ca
		{away, "verify-ca&sslrootcert=" + root, true},
		{away, "verify-full", true},
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
