package doctor

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A connection that may reach an unintended server, or be read on the way, is found; a connection within this host is
// not.
func TestEncryption(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	root := filepath.Join(t.TempDir(), "root.crt")
	if err := os.WriteFile(root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		// sslmode is prefer
		"postgres://u:p@db/shop":                                                          "only if the server offers it",
		"postgres://u:p@db/shop?sslmode=prefer":                                           "only if the server offers it",
		"postgres://u:p@db/shop?sslmode=allow":                                            "only if the server offers it",
		"postgres://u:p@db/shop?sslmode=disable":                                          "is not encrypted",
		"postgres://u:p@db/shop?sslmode=require":                                          "is not verified",
		"postgres://u:p@db/shop?sslmode=require&sslrootcert=" + root:                      "", // like verify-ca
		"postgres://u:p@db/shop?sslmode=verify-ca&sslrootcert=" + root:                    "",
		"postgres://u:p@db/shop?sslmode=verify-full&sslrootcert=" + root:                  "",
		"postgres://u:p@db/shop?sslmode=verify-full":                                      "",
		"postgres://u:p@127.0.0.1/shop?sslmode=disable":                                   "",
		"postgres://u:p@localhost,[::1]/shop":                                             "",
		"host=/var/run/postgresql user=u password=p dbname=shop":                          "",
		"postgres://u:p@127.0.0.1,db/shop?sslmode=disable":                                "is not encrypted",
		"postgres://u:p@127.0.0.1,db/shop?sslmode=require":                                "db:5432",
		"postgres://u:p@one,two/shop?sslmode=verify-full&target_session_attrs=read-write": "",
	} {
		c, err := pgconn.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		found := encryption(c, variableURL, !strings.Contains(url, "sslmode=disable"))
		if (len(found) > 0) != (want != "") ||
			want != "" && (!strings.Contains(found[0].Found, want) || found[0].Severity != finding.Warning ||
				!strings.Contains(found[0].Remedy, "verify-full")) {
			t.Errorf("%s: %+v", url, found)
		}
	}
	plain, _ := pgconn.ParseConfig("postgres://u:p@db/shop")
	if found := encryption(plain, variableURL, false); len(found) != 1 ||
		found[0].Found != "the connection is not encrypted" {
		t.Errorf("preferred, and not had: %+v", found)
	}
}
