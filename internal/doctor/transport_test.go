package doctor

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// remote is a connection to an address.
type remote struct {
	net.Conn
	to net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.to }

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
		to        net.Addr
		mode      string // sslmode, and what follows it
		encrypted bool
		want      string
	}{
		{away, "disable", false, "is not encrypted"},
		{away, "prefer", false, "is not encrypted"},
		{away, "prefer", true, "10.0.0.5:5432"},
		{away, "allow", true, "is not verified"},
		{away, "require", true, "is not verified"},
		{away, "require&sslrootcert=" + root, true, ""}, // like verify-ca
		{away, "verify-ca&sslrootcert=" + root, true, ""},
		{away, "verify-full", true, ""},
		{here, "disable", false, ""},
		{socket, "disable", false, ""},
	} {
		config, err := pgconn.ParseConfig("postgres://u:p@db/shop?sslmode=" + c.mode)
		if err != nil {
			t.Fatal(err)
		}
		var conn net.Conn = remote{to: c.to}
		if c.encrypted {
			conn = tls.Client(conn, config.TLSConfig)
		}
		found := encryption(conn, config.TLSConfig, variableURL)
		if (len(found) > 0) != (c.want != "") ||
			c.want != "" && (!strings.Contains(found[0].Found, c.want) || found[0].Severity != finding.Warning ||
				!strings.Contains(found[0].Remedy, "verify-full")) {
			t.Errorf("%+v: %+v", c, found)
		}
	}
}
