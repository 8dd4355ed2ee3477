package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// TestDatabaseCertificates replaces the authority of PostgreSQL's certificate and the relay's client certificate while
// the relay runs, as operators of databases do every few months. New connections use the files as they are then.
func TestDatabaseCertificates(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic, s, dir := b.topic(t), newServer(t, nil), t.TempDir()
	write := func(dir, name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if credential := postgresUser(t); credential != nil && dir == s.data {
			if err := os.Chown(path, int(credential.Uid), int(credential.Gid)); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	rotate := func() {
		a := tlstest.NewAuthority(t)
		server, client := a.Issue(t, tlstest.Leaf{Name: "127.0.0.1"}), a.Issue(t, tlstest.Leaf{Name: "postgres"})
		for name, content := range map[string][]byte{"server.crt": server.Cert, "server.key": server.Key, "root.crt": a.PEM} {
			write(s.data, name, content)
		}
		for name, content := range map[string][]byte{"ca.pem": a.PEM, "client.pem": client.Cert, "client.key": client.Key} {
			write(dir, name, content)
		}
	}
	rotate()
	write(s.data, "pg_hba.conf", []byte("hostssl all all 127.0.0.1/32 cert\nhostnossl all all 127.0.0.1/32 trust\n"))
	s.start("ssl=on", "ssl_ca_file=root.crt")
	pool := s.pool(s.addr)
	defer pool.Close()
	outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(s.addr), Name: "public", Pool: pool}, t: t}
	outbox.Exec(t, recommended(t))
	r := startRelay(t, settings{
		fmt.Sprintf("OUTBOX_DATABASE_URL=postgres://postgres@%s/postgres?sslmode=verify-full&sslrootcert=%s/ca.pem"+
			"&sslcert=%[2]s/client.pem&sslkey=%[2]s/client.key", s.addr, dir), "OUTBOX_PUBLISH_URL=" + b.url(),
	})
	for i := range 3 {
		outbox.insert(topic, i*1000, 500, 20)
		outbox.awaitDrained()
		rotate()
		outbox.Exec(t, "select pg_reload_conf()")
		outbox.insert(topic, i*1000+500, 500, 20)
		outbox.Exec(t, "select pg_terminate_backend(pid) from pg_stat_ssl where ssl")
	}
	outbox.awaitDrained()
	r.awaitReady()
	checkBounded(t, outbox, b.received(t, topic), 3)
	outbox.checkUnspent(everyRow)
}
