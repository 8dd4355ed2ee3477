// Command bench drains a full outbox with the relay's real binary to each real broker, by turns with the
// yardstick, and prints what that cost. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	only := flag.String("broker", "", "kafka, nats or rabbitmq; empty means each of them")
	rows := flag.Int("rows", 300_000, "pending rows to drain")
	rounds := flag.Int("rounds", 3, "runs of each program with each broker")
	keys := flag.Int("keys", 1000, "ordering keys")
	relay := flag.String("relay", "../outbox-relay", "binary of the relay")
	flag.Parse()
	if err := run(ctx, *only, *relay, *rows, *keys, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench holds what the runs with one broker share.
type bench struct {
	outbox                 *outbox
	broker                 broker
	rows, keys             int
	databasePID, brokerPID int
}

func run(ctx context.Context, only, relay string, rows, keys, rounds int) (err error) {
	size, err := os.Stat(relay)
	if err != nil {
		return fmt.Errorf("no relay to measure, use `make bench`: %w", err)
	}
	if relay, err = filepath.Abs(relay); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "outbox-relay-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	yardstick := filepath.Join(dir, "yardstick")
	build := exec.CommandContext(ctx, "go", "build", "-o", yardstick, "./yardstick")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build yardstick: %w", err)
	}
	ddl, err := exec.CommandContext(ctx, relay, "schema").Output()
	if err != nil {
		return fmt.Errorf("print schema: %w", err)
	}
	database, err := endpoint("TEST_DATABASE_URL")
	if err != nil {
		return err
	}
	table, err := newOutbox(ctx, database, string(ddl))
	if err != nil {
		return err
	}
	defer func() {
		if failed := table.close(context.WithoutCancel(ctx)); err == nil {
			err = failed
		}
	}()
	b := &bench{outbox: table, rows: rows, keys: keys}
	port, err := portOf(database)
	if err != nil {
		return err
	}
	b.databasePID = listenerOn(port)

	var results []result
	for _, v := range variables {
		if only != "" && only != v.name {
			continue
		}
		address, err := endpoint(v.variable)
		if err != nil {
			return err
		}
		both, err := b.rounds(ctx, v.name, address, rounds, []program{
			{name: "yardstick", command: func(topic, _ string) *exec.Cmd {
				return exec.CommandContext(ctx, yardstick, "--database", table.url, "--url", address, "--topic", topic, "--partitions", fmt.Sprint(partitions))
			}},
			{name: "relay", serves: true, command: func(_, addr string) *exec.Cmd {
				cmd := exec.CommandContext(ctx, relay, "run")
				cmd.Env = append(withoutSettings(os.Environ()), "OUTBOX_DATABASE_URL="+table.url, "OUTBOX_PUBLISH_URL="+address, "OUTBOX_HTTP_ADDR="+addr)
				return cmd
			}},
		})
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		results = append(results, both...)
	}
	if len(results) == 0 {
		return fmt.Errorf("unknown broker %q", only)
	}
	fmt.Printf("\n%d rows of 512 B on %d keys, %d rounds by turns, medians; the binary has %.1f MiB\n\n", rows, keys, rounds, float64(size.Size())/(1<<20))
	report(os.Stdout, results)
	for _, missed := range verdict(results, size.Size()) {
		fmt.Println("missed:", missed)
	}
	return nil
}

// rounds runs the programs by turns. A first run of the first one warms the broker up and is not counted:
// a broker that has just started costs several times as much.
func (b *bench) rounds(ctx context.Context, name, address string, rounds int, programs []program) ([]result, error) {
	var err error
	if b.broker, err = openBroker(name, address); err != nil {
		return nil, err
	}
	defer b.broker.close()
	port, err := portOf(address)
	if err != nil {
		return nil, err
	}
	b.brokerPID = listenerOn(port)
	results := make([]result, len(programs))
	for round := range rounds + 1 {
		for i, p := range programs {
			if round == 0 && i > 0 {
				continue
			}
			d, err := b.run(ctx, p)
			if err != nil {
				return nil, err
			}
			results[i].broker, results[i].program, results[i].rows = name, p.name, b.rows
			note := "warm-up"
			if round > 0 {
				results[i].drains = append(results[i].drains, d)
				note = fmt.Sprint("round ", round)
			}
			fmt.Printf("%s %s, %s: %.0f rows/s in %v\n", name, p.name, note, float64(b.rows)/d.elapsed.Seconds(), d.elapsed.Round(time.Millisecond))
			if d.stages != "" {
				fmt.Println("   ", d.stages)
			}
		}
	}
	return results, nil
}

func endpoint(variable string) (string, error) {
	address := os.Getenv(variable)
	if address == "" {
		return "", fmt.Errorf("%s is not set: run `make bench`, or eval \"$(dev/services.sh env)\" first", variable)
	}
	return address, nil
}

// withoutSettings leaves out the relay's settings of the shell that runs the benchmark.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, pair := range environment {
		if !strings.HasPrefix(pair, "OUTBOX_") {
			kept = append(kept, pair)
		}
	}
	return kept
}
