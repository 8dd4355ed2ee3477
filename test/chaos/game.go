package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/chaos/broker"
	"github.com/outbox-relay/outbox-relay/test/chaos/history"
	"github.com/outbox-relay/outbox-relay/test/chaos/plan"
	"github.com/outbox-relay/outbox-relay/test/chaos/replica"
	"github.com/outbox-relay/outbox-relay/test/chaos/scene"
	"github.com/outbox-relay/outbox-relay/test/chaos/writer"
)

const (
	shutdown  = 10 * time.Second // OUTBOX_SHUTDOWN_TIMEOUT
	overtime  = 5 * time.Second  // time that a process may take beyond it on a busy machine
	grace     = 10 * time.Second // time for duplicates after a fault: time to live, publish timeout, pauses
	cleanTime = 30 * time.Second // time for reading the broker and for cleaning up
	settle    = 8 * time.Second  // RabbitMQ 3.10 forgets a queue that was declared a moment before kill -9
)

func getenv(name string) string { return os.Getenv(name) }

// A game is one run with one seed.
type game struct {
	options
	site *site
	out  io.Writer

	plan     plan.Plan
	began    time.Time
	dir      string // folder of the relays' logs
	schema   string
	scene    *scene.Scene
	url      string // URL of the database, for everything except the relays
	broker   broker.Broker
	writers  *writer.Writers
	replicas [plan.MaxReplicas]*replica.Replica
	sessions sessions

	slots   [plan.MaxReplicas]sync.Mutex   // held while something is done to a replica
	links   [plan.MaxReplicas]sync.Mutex   // held while something is done to a replica's link to the database
	brokers [][plan.MaxReplicas]sync.Mutex // held while something is done to a link to the broker, by destination
	pauses  []sync.Mutex                   // held while a file that pauses a destination is written
	servers [2]sync.Mutex                  // held while something is done to the database or the broker

	mu     sync.Mutex
	faults []history.Fault
	exits  []history.Exit
	wanted int // number of replicas that should run
}

// result is the outcome of a run.
type result struct {
	seed       uint64
	run        *history.Run
	violations []history.Violation
	longest    time.Duration // longest time that a statement of a relay ran
}

// ttl is OUTBOX_OWNER_TTL. A short one makes takeovers frequent. In a run in which nothing may be delivered twice, it
// is long enough that a busy machine does not look like a dead one.
func (o options) ttl() time.Duration {
	if o.clean {
		return 10 * time.Second
	}
	return 2 * time.Second
}

func (g *game) play(ctx context.Context) (_ result, err error) {
	id := strings.ToLower(rand.Text()[:8])
	if g.dir, err = os.MkdirTemp("", "outbox-relay-chaos-logs-"); err != nil {
		return result{}, fmt.Errorf("make a directory for logs: %w", err)
	}
	g.scene = scene.New(g.options.scene, "chaos-"+id)
	options := plan.Options{
		Duration: g.duration, Replicas: g.options.replicas, Clean: g.clean, Crashes: g.site.servers.Ours(),
		Links: g.site.servers.Ours() || g.options.broker != "kafka", Settle: g.settle(),
		Destinations: len(g.scene.Destinations),
	}
	if g.cluster {
		options.Cluster = g.options.broker
	}
	g.plan = plan.New(g.seed, options, g.ttl())
	g.brokers = make([][plan.MaxReplicas]sync.Mutex, len(g.scene.Destinations))
	if g.scene.Several() {
		g.pauses = make([]sync.Mutex, len(g.scene.Destinations))
	}
	g.wanted = g.plan.Replicas
	g.site.restore()
	defer g.close(context.WithoutCancel(ctx))
	if err := g.open(ctx, "chaos_"+id, "chaos-"+id); err != nil {
		return result{}, err
	}
	if err := g.act(ctx); err != nil {
		return result{}, err
	}
	r, err := g.judge(ctx)
	if err != nil {
		return result{}, err
	}
	g.report(r)
	if len(r.violations) == 0 && !g.keep {
		err = os.RemoveAll(g.dir)
	}
	return r, err
}

func (g *game) settle() time.Duration {
	if g.options.broker == "rabbitmq" {
		return settle
	}
	return time.Second
}

// open makes tables, topics and replicas; the replicas do not run yet.
func (g *game) open(ctx context.Context, schema, name string) error {
	g.schema = schema
	if err := g.database(ctx); err != nil {
		return err
	}
	var err error
	if g.broker, err = broker.Open(g.options.broker, g.site.target(g.options), name); err != nil {
		return err
	}
	if err := g.create(ctx, g.scene.Destinations, g.scene.Topics); err != nil {
		return err
	}
	g.writers = &writer.Writers{
		URL: g.url, Seed: g.seed, Topics: g.scene.Topics, Absent: g.scene.Absent, Bad: bad(g.options.broker),
		Bads: fewBad,
	}
	if g.scene.Several() {
		g.writers.Bads = manyBad
	}
	if err := g.writers.Open(ctx); err != nil {
		return err
	}
	for i := range g.replicas {
		if err := g.replica(i); err != nil {
			return err
		}
	}
	return nil
}

// These are intervals: one row in so many is accepted by no broker. With several destinations there are more such rows,
// since their dead letters are checked too.
const (
	fewBad  = 80
	manyBad = 40
)

// create makes the topics to which rows of the given topics go.
func (g *game) create(ctx context.Context, destinations []scene.Destination, topics []string) error {
	for i := range destinations {
		for _, topic := range destinations[i].Topics(topics) {
			if err := g.broker.Create(ctx, topic); err != nil {
				return err
			}
		}
	}
	return nil
}

// ddl returns what the relay prints for the outbox: its table, and what each destination needs in it.
func (g *game) ddl(ctx context.Context) (scripts []string, err error) {
	args := [][]string{{"schema"}}
	if g.plan.Settings.Doorbell {
		args[0] = append(args[0], "--doorbell")
	}
	for _, d := range g.scene.Destinations {
		if d.Columns != "" {
			args = append(args, []string{"schema", "--destination", d.Name})
		}
	}
	for _, one := range args {
		command := exec.CommandContext(ctx, g.relay, one...)
		command.Env = g.environment()
		command.Stderr = g.out
		script, err := command.Output()
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("there is no %s: run `make build`", g.relay)
		}
		if err != nil {
			return nil, fmt.Errorf("print the outbox's tables: %w", err)
		}
		scripts = append(scripts, string(script))
	}
	return scripts, nil
}

// environment returns the variables of a command that knows the table and the destinations, and needs no broker.
func (g *game) environment() []string {
	nowhere := func(string) string { return "stdout:" }
	return append(g.scene.Environment(func(int) string { return "" }, nowhere, g.dir), "PATH="+getenv("PATH"),
		"OUTBOX_DATABASE_URL="+g.site.servers.Database, "OUTBOX_TABLE="+g.schema+".outbox_messages")
}

// database makes the schema: the application's tables, the outbox that the relay recommends, and a table that records
// failures.
func (g *game) database(ctx context.Context) error {
	outbox, err := g.ddl(ctx)
	if err != nil {
		return err
	}
	u, err := url.Parse(g.site.servers.Database)
	if err != nil {
		return fmt.Errorf("address of the database: %w", err)
	}
	query := u.Query()
	query.Set("search_path", g.schema)
	u.RawQuery = query.Encode()
	g.url = u.String()
	conn, err := pgx.Connect(ctx, g.url)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // nothing is open on it
	for _, script := range append(append([]string{"create schema " + g.schema, writer.Tables}, outbox...),
		g.scene.Witness()) {
		// Without arguments, pgx sends a script of several statements as it is.
		if _, err := conn.Exec(ctx, script); err != nil {
			return fmt.Errorf("make tables: %w", err)
		}
	}
	return nil
}

// bad returns the kinds of rows that no broker of this kind takes.
func bad(kind string) []writer.Bad {
	all := []writer.Bad{{Name: "reserved header", Headers: `{"Nats-Msg-Id": "mine"}`}}
	switch kind {
	case "kafka":
		return append(all, writer.Bad{Name: "too large", Size: 1_200_000},
			writer.Bad{Name: "illegal topic", Topic: "no/topic"})
	case "nats":
		return append(all, writer.Bad{Name: "too large", Size: 1_200_000},
			writer.Bad{Name: "illegal subject", Topic: "no..subject"})
	default:
		return append(all, writer.Bad{Name: "name too long", Topic: strings.Repeat("long", 80)})
	}
}

func (g *game) replica(i int) error {
	name := fmt.Sprint("relay ", i+1)
	data, err := g.site.relayDatabase(i, g.application(i))
	if err != nil {
		return err
	}
	publish := 3 * time.Second
	if g.clean {
		publish = 30 * time.Second
	}
	environment := append([]string{
		"OUTBOX_DATABASE_URL=" + data,
		"OUTBOX_TABLE=" + g.schema + ".outbox_messages",
		"OUTBOX_OWNER_TTL=" + g.ttl().String(),
		"OUTBOX_PUBLISH_TIMEOUT=" + publish.String(),
		"OUTBOX_SHUTDOWN_TIMEOUT=" + shutdown.String(),
		"OUTBOX_BACKOFF_MIN=100ms", "OUTBOX_BACKOFF_MAX=2s",
	}, g.broker.Environment()...)
	address := func(destination int) string { return g.site.relayBroker(g.options, i, destination) }
	environment = append(environment, g.scene.Environment(address, g.broker.URL, g.dir)...)
	g.replicas[i] = &replica.Replica{
		Name: name, Binary: g.relay, Settings: append(environment, g.plan.Settings.Environment()...),
		Log: filepath.Join(g.dir, strings.ReplaceAll(name, " ", "-")+".log"), StopTime: shutdown + overtime,
		MayLeave: !g.clean,
		Ended: func(how string) {
			g.say("!", "%s %s", name, how)
			g.mu.Lock()
			defer g.mu.Unlock()
			g.exits = append(g.exits, history.Exit{Replica: name, How: how})
		},
	}
	return nil
}

// application is a replica's application_name in the database. The schema in the name separates runs.
func (g *game) application(i int) string { return fmt.Sprintf("%s-relay-%d", g.schema, i+1) }

// say prints a line with the time since the start of the run.
func (g *game) say(mark, format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := 0.0
	if !g.began.IsZero() {
		at = time.Since(g.began).Seconds()
	}
	fmt.Fprintf(g.out, "%7.2fs %s %s\n", at, mark, fmt.Sprintf(format, args...))
}

// close ends all processes and removes what was made. Objects that cannot be removed disappear with the servers.
func (g *game) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	for _, r := range slices.DeleteFunc(g.replicas[:], func(r *replica.Replica) bool { return r == nil }) {
		r.Kill()
	}
	g.site.restore()
	if g.broker != nil {
		g.broker.Close(ctx)
	}
	if g.writers != nil {
		g.writers.Close()
	}
	if conn, err := pgx.Connect(ctx, g.site.servers.Database); err == nil {
		_, _ = conn.Exec(ctx, "drop schema if exists "+g.schema+" cascade")
		_ = conn.Close(ctx)
	}
}
