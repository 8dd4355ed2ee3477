package e2e

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// connector is Debezium's connector for PostgreSQL with its outbox event router, in a separate Kafka Connect.
type connector struct {
	*node
	outbox *table
	from   string // position that the slot had confirmed before the start
}

// connectorPatience is how long Kafka Connect may take to start: it reads all of its archives.
const connectorPatience = 5 * time.Minute

// newConnector configures the connector as docs/migrating.md requires.
func newConnector(t testing.TB, archives, addr string, outbox *table, b *kafkaBroker, way way) *connector {
	t.Helper()
	c := &connector{node: newNode(t, "Debezium"), outbox: outbox}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	prefix := uniqueTopic()
	b.create(t, "__debezium-heartbeat."+prefix)
	worker := c.write("worker.properties", fmt.Sprintf(`bootstrap.servers=%s
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename=%s
offset.flush.interval.ms=1000
task.shutdown.graceful.timeout.ms=%d
plugin.discovery=service_load
listeners=http://127.0.0.1:0
`, strings.TrimPrefix(b.url(), "kafka://"), filepath.Join(c.dir, "offsets"), patience.Milliseconds()))
	settings := c.write("connector.properties", fmt.Sprintf(`name=outbox
connector.class=io.debezium.connector.postgresql.PostgresConnector
database.hostname=%s
database.port=%s
database.user=postgres
database.password=none
database.dbname=postgres
topic.prefix=%s
plugin.name=pgoutput
snapshot.mode=no_data
table.include.list=public.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
transforms.outbox.predicate=outbox
predicates=outbox
predicates.outbox.type=org.apache.kafka.connect.transforms.predicates.TopicNameMatches
predicates.outbox.pattern=.*\\.public\\.outbox
%s`, host, port, prefix, way.block(t, "connector")))
	c.command = []string{
		"java", "-Xmx256m", "-cp", filepath.Join(archives, "*"), "org.apache.kafka.connect.cli.ConnectStandalone", worker,
		settings,
	}
	return c
}

func (c *connector) run() captor {
	c.from = c.confirmed()
	c.start()
	return c
}

func (c *connector) confirmed() string {
	return pgtest.Value[string](c.t, c.outbox.Schema,
		"select confirmed_flush_lsn::text from pg_replication_slots where slot_name = 'debezium'")
}

// flow waits until the slot advances, which it does when what was read has been sent.
func (c *connector) flow() {
	c.t.Helper()
	awaitWithin(c.t, connectorPatience, "Debezium sends", func() bool { c.mustRun(); return c.confirmed() != c.from })
}

func (c *connector) stop() {
	c.t.Helper()
	_ = syscall.Kill(c.cmd.Process.Pid, syscall.SIGTERM) // it may have ended already
	<-c.gone
}
