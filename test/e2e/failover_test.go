package e2e

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// server is a PostgreSQL server for one test.
type server struct {
	t    testing.TB
	data string
	addr string
	bin  string // the directory of its programs
	cmd  *exec.Cmd
}

// newServer makes a server's data directory, empty or as a copy of another server's.
func newServer(t testing.TB, template *server) *server {
	t.Helper()
	s := emptyServer(t)
	if template == nil {
		s.init()
	} else if out, err := s.command("cp", "-a", template.data, s.data).CombinedOutput(); err != nil {
		t.Fatalf("copy the data: %v\n%s", err, out)
	}
	return s
}

func emptyServer(t testing.TB) *server {
	t.Helper()
	//nolint:usetesting // t.TempDir is closed to the user that PostgreSQL runs as
	dir, err := os.MkdirTemp("", "outbox-relay-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, data: filepath.Join(dir, "data"), addr: freeAddr(t), bin: endpoint(t, "TEST_POSTGRES_BIN")}
	t.Cleanup(func() {
		s.kill()
		_ = os.RemoveAll(dir) // remaining files do no harm
	})
	if credential := postgresUser(t); credential != nil {
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// newServerOf makes a data directory for the version of the server at an address.
func newServerOf(t testing.TB, address string) *server {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s := emptyServer(t)
	s.bin = pgtest.Value[string](t, &pgtest.Schema{Pool: pool}, "select setting from pg_config where name = 'BINDIR'")
	s.init()
	return s
}

func (s *server) init() {
	s.t.Helper()
	s.run("initdb", "-D", s.data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C")
}

// postgresUser returns the user as whom PostgreSQL runs, or nil for the user of the tests. PostgreSQL refuses to run as
// root.
func postgresUser(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(found.Uid, 10, 32) // numbers on Unix
	gid, _ := strconv.ParseUint(found.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// command makes a command that runs as the user of PostgreSQL, in a separate process group.
func (s *server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: postgresUser(s.t)}
	return cmd
}

func (s *server) run(program string, args ...string) {
	s.t.Helper()
	if out, err := s.command(filepath.Join(s.bin, program), args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// start starts the server with further settings.
func (s *server) start(more ...string) {
	s.t.Helper()
	port := s.addr[strings.LastIndexByte(s.addr, ':')+1:]
	args := []string{
		"-D", s.data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c",
		"shared_buffers=64MB",
	}
	for _, setting := range more {
		args = append(args, "-c", setting)
	}
	s.cmd = s.command(filepath.Join(s.bin, "postgres"), args...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	pool := s.pool(s.addr)
	defer pool.Close()
	await(s.t, "PostgreSQL answers", func() bool { return pool.Ping(s.t.Context()) == nil })
}

// kill ends the server as the end of its machine would. The processes of its sessions notice, and end by themselves.
func (s *server) kill() {
	if s.cmd != nil {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // it may have ended already
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// crash stops the server in immediate mode. The effect is that of a crash, except that the server can be started again
// at once.
func (s *server) crash() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait()
	s.cmd = nil
}

// pool connects to the first of several servers that accepts writes, or to the only one.
func (s *server) pool(addrs ...string) *pgxpool.Pool {
	s.t.Helper()
	pool, err := pgxpool.New(s.t.Context(), hostsURL(addrs...))
	if err != nil {
		s.t.Fatal(err)
	}
	return pool
}

func hostsURL(addrs ...string) string {
	url := "postgres://postgres@" + strings.Join(addrs, ",") + "/postgres?sslmode=disable"
	if len(addrs) > 1 {
		url += "&target_session_attrs=read-write"
	}
	return url
}

// TestFailover kills the primary of two PostgreSQL servers in the middle of a backlog and promotes the other one, which
// replicates synchronously. No row is lost, the order holds, and later rows flow too, also after the former primary has
// come back and does not know that it was replaced.
func TestFailover(t *testing.T) {
	t.Parallel()
	b := newKafka(t, endpoint(t, "TEST_KAFKA_URL"))
	topic := b.topic(t)
	primary := newServer(t, nil)
	standby := newServer(t, primary)
	if out, err := standby.command("touch", filepath.Join(standby.data, "standby.signal")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	primary.start()
	host, port, _ := strings.Cut(primary.addr, ":")
	standby.start("primary_conninfo=host=" + host + " port=" + port + " user=postgres")

	both := primary.pool(primary.addr, standby.addr)
	defer both.Close()
	outbox := &table{Schema: &pgtest.Schema{URL: hostsURL(primary.addr, standby.addr), Name: "public", Pool: both}, t: t}
	outbox.Exec(t, "alter system set synchronous_standby_names = '*'")
	outbox.Exec(t, "select pg_reload_conf()")
	await(t, "replication is synchronous", func() bool {
		return pgtest.Value[int64](t, outbox.Schema,
			"select count(*) from pg_stat_replication where sync_state = 'sync'") == 1
	})
	outbox.Exec(t, recommended(t))
	outbox.insert(topic, 0, manyRows, manyKeys)

	// The relay finds the primary by itself.
	env := settings{
		"OUTBOX_DATABASE_URL=" + strings.TrimSuffix(outbox.URL, "&target_session_attrs=read-write"),
		"OUTBOX_PUBLISH_URL=" + b.url(),
	}
	replicas := []*relay{startRelay(t, env), startRelay(t, env)}
	outbox.awaitRelayed(manyRows / 4)
	primary.kill()
	if status, _ := replicas[0].get("/livez"); status != 200 {
		t.Errorf("/livez answers %d", status)
	}
	promoted := standby.pool(standby.addr)
	defer promoted.Close()
	if _, err := promoted.Exec(context.Background(), "select pg_promote()"); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	outbox.Pool = promoted
	relayed := outbox.count(isRelayed)
	if relayed == manyRows {
		t.Fatal("killed too late: nothing was left")
	}
	outbox.awaitRelayed(relayed + 1)
	t.Logf("rows flowed %v after the promotion, %d were left", time.Since(since).Round(time.Millisecond), manyRows-relayed)
	outbox.insert(topic, manyRows, 1000, manyKeys)
	outbox.awaitDrained()
	primary.start() // as it was, first in the list and writable
	outbox.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outbox-relay'")
	outbox.insert(topic, manyRows+1000, 1000, manyKeys)
	outbox.awaitDrained()
	for _, r := range replicas {
		r.awaitReady()
	}
	checkBounded(t, outbox, b.received(t, topic), 2*len(replicas))
	outbox.checkUnspent(everyRow)
}
