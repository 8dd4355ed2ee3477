package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// outage is how long the brokers are away.
const outage = 20 * time.Second

// services is a second set of services beside the one that everybody uses, so that they can be stopped.
type services struct {
	t      testing.TB
	dir    string
	offset int      // of the ports
	env    []string // more for dev/services.sh
}

// newServices makes an empty set; name and offset are its own.
func newServices(t testing.TB, name string, offset int, env ...string) *services {
	t.Helper()
	dir, err := filepath.Abs("../.services/" + name)
	if err != nil {
		t.Fatal(err)
	}
	s := &services{t: t, dir: dir, offset: offset, env: env}
	s.run("wipe") // what a test that was cut off has left
	t.Cleanup(func() { s.run("wipe") })
	return s
}

// run runs a verb of dev/services.sh and returns what it printed to standard output.
func (s *services) run(verb string, names ...string) string {
	s.t.Helper()
	cmd := exec.Command("dev/services.sh", append([]string{verb}, names...)...)
	cmd.Dir = ".."
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "TEST_") && !strings.HasPrefix(pair, "SERVICES_DIR=") && !strings.HasPrefix(pair, "SERVICES_PORT_OFFSET=") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "SERVICES_DIR="+s.dir, fmt.Sprint("SERVICES_PORT_OFFSET=", s.offset))
	cmd.Env = append(cmd.Env, s.env...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("dev/services.sh %s %v: %v\n%s", verb, names, err, problems.String())
	}
	return out.String()
}

// address returns the address of one of the services.
func (s *services) address(variable string) string {
	s.t.Helper()
	for line := range strings.Lines(s.run("env")) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "export "+variable+"="); found {
			return strings.Trim(value, `'"`)
		}
	}
	s.t.Fatalf("dev/services.sh env does not name %s", variable)
	return ""
}

// TestOutage stops each broker for 20 s while rows come in: no attempt is spent, nothing fails, the
// process lives and says what is wrong, and rows flow soon after the broker is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	set := newServices(t, "outage", 1900)
	set.run("up", "kafka", "nats", "rabbitmq")
	type pair struct {
		broker  broker
		service string
		topic   string
		outbox  *table
		relay   *relay
	}
	var pairs []*pair
	for _, b := range []broker{newKafka(t, set.address("TEST_KAFKA_URL")), newNATS(t, set.address("TEST_NATS_URL")), newRabbit(t, set.address("TEST_AMQP_URL"))} {
		p := &pair{broker: b, service: b.name(), topic: b.topic(t), outbox: newTable(t)}
		p.relay = startRelay(t, p.outbox.env(b.url()))
		p.relay.awaitReady()
		pairs = append(pairs, p)
	}
	const rows, keys = 2000, 50
	for _, p := range pairs {
		p.outbox.insert(p.topic, 0, rows, keys)
		p.outbox.awaitDrained()
		set.run("stop", p.service)
		p.outbox.insert(p.topic, rows, rows, keys)
	}
	stopped := time.Now()
	for _, p := range pairs {
		p.relay.awaitNotReady("destination default")
		if up := p.relay.metric(`destination_up{destination="default"}`); up != "0" {
			t.Errorf("%s: destination_up is %q during the outage", p.service, up)
		}
	}
	<-time.After(time.Until(stopped.Add(outage)))
	for _, p := range pairs {
		p.relay.mustRun()
		if pending := p.outbox.count(isPending); pending != rows {
			t.Errorf("%s: %d rows are pending during the outage, want %d", p.service, pending, rows)
		}
		if lines := len(p.relay.records("INFO")); lines > 40 {
			t.Errorf("%s: %d lines of log until the end of the outage", p.service, lines)
		}
	}
	for _, p := range pairs {
		set.run("up", p.service)
		ready := time.Now()
		await(t, p.service+": rows flow", func() bool { return p.outbox.count(isRelayed) > rows })
		took := time.Since(ready)
		p.outbox.awaitDrained()
		t.Logf("%s: rows flowed %v after it was ready again, all within %v", p.service, took.Round(time.Millisecond), time.Since(ready).Round(time.Millisecond))
		if took > 5*time.Second {
			t.Errorf("%s: rows flowed only %v after it was ready", p.service, took)
		}
		p.relay.awaitReady()
		p.outbox.checkUnspent(everyRow)
		checkBounded(t, p.outbox, p.broker.received(t, p.topic), 1)
		p.relay.stop()
	}
}
