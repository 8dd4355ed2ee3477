// Command bench measures the relay's real binary against real servers, each figure beside its reference in the same
// run, and prints a table with targets and verdicts. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// study is one measurement: a subcommand.
type study struct {
	name, about  string
	rows, rounds int    // defaults
	broker       string // default
	run          func(context.Context, *lab, *report) error
}

// studies are listed in the order in which `all` runs them.
var studies = []study{
	{
		name: "drain", about: "a full table, beside the yardstick", rows: 300_000, rounds: 3, broker: all,
		run: drainStudy,
	},
	{
		name: "destinations", about: "two destinations, beside one alone; one beside another in trouble", rows: 100_000,
		rounds: 3,
		broker: "nats", run: destinationsStudy,
	},
	{
		name: "latency", about: "from the return of COMMIT to a consumer of the broker", rows: 10_000, rounds: 2,
		broker: "nats",
		run:    latencyStudy,
	},
	{
		name: "replicas", about: "two and four replicas on one table, beside one", rows: 300_000, rounds: 3,
		broker: "nats",
		run:    replicasStudy,
	},
	{
		name: "delay", about: "+1 ms to the broker or the database, beside the undelayed drain", rows: 200_000,
		rounds: 3,
		broker: all,
		run:    delayStudy,
	},
	{
		name: "tls", about: "a full table to a broker with TLS, beside the same without", rows: 200_000, rounds: 3,
		broker: all, run: tlsStudy,
	},
	{
		name: "inserts", about: "what a relay costs an application's inserts, with pgbench", rounds: 3, broker: "nats",
		run: insertsStudy,
	},
	{
		name: "pinned", about: "reads and drain while a transaction stays open, beside a vacuumed table", rows: 300_000,
		rounds: 2,
		broker: "nats", run: pinnedStudy,
	},
	{
		name: "pending", about: "five million pending rows beside a hundredth of that", rows: 5_000_000, rounds: 1,
		broker: "nats",
		run:    pendingStudy,
	},
	{
		name:  "operations",
		about: "status and doctor before a backlog, and prune of a fifth as many rows beside 5,000 rows/s",
		rows:  5_000_000, rounds: 1, broker: "nats", run: operationsStudy,
	},
	{
		name: "due", about: "rows that become due while a million are scheduled for later and others flow",
		rows:   1_000_000,
		rounds: 1,
		broker: "nats", run: dueStudy,
	},
	{
		name: "partitions", about: "statements on a table by day, beside a table without partitions", rounds: 3,
		run: partitionsStudy,
	},
	{name: "idle", about: "an owner and a standby with nothing to do, for a minute", broker: "nats", run: idleStudy},
	{
		name: "takeover", about: "kill -9 of one of two replicas under 1,000 rows/s", rows: 12_000, rounds: 5,
		broker: "kafka",
		run:    takeoverStudy,
	},
	{
		name: "burden", about: "kill -9 and start beside 100,000 failed rows, 120,000 keys that wait, a million " +
			"pending rows",
		rounds: 1,
		broker: "kafka", run: burdenStudy,
	},
	{
		name: "rolling", about: "rolling restart of three replicas under 5,000 rows/s", rows: 50_000, rounds: 3,
		broker: "kafka",
		run:    rollingStudy,
	},
	{
		name: "outage", about: "a broker that is away for 30 s, and the backlog after it", rows: 20_000, rounds: 2,
		broker: all,
		run:    outageStudy,
	},
	{
		name: "trouble", about: "rows beside keys and topics in trouble, and what waited after it", rows: 100_000,
		rounds: 1,
		broker: all,
		run:    troubleStudy,
	},
	{
		name: "cluster", about: "one of three nodes killed, frozen or cut off: rows of healthy leaders, and all rows " +
			"when leaders have moved",
		rounds: 1, broker: all, run: clusterStudy,
	},
	{
		name: "memory", about: "resident size with small rows, large rows and rows above the bound", rows: 200_000,
		broker: all,
		run:    memoryStudy,
	},
	{
		name: "publish", about: "the publishers alone, beside the bare client libraries", rows: 100_000, broker: all,
		run: publishStudy,
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run takes the name of a study, then flags. Without a name it runs the drain study.
func run(ctx context.Context, args []string) error {
	name := studies[0].name
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if name == pollCommand { // not a study: the process that idleStudy uses as its reference
		return poll(ctx)
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.broker, "broker", "", "kafka, nats, rabbitmq or all; empty means the study's own choice")
	flags.StringVar(&o.relay, "relay", "../../outbox-relay", "binary of the relay")
	flags.IntVar(&o.rows, "rows", 0, "rows; 0 means what the study is made for")
	flags.IntVar(&o.rounds, "rounds", 0, "runs of each variant; 0 means the study's own number")
	flags.IntVar(&o.keys, "keys", 1000, "ordering keys")
	flags.IntVar(&o.hot, "hot", 0, "drain: percentage of the rows on one hot key")
	flags.DurationVar(&o.distance, "distance", 0,
		"latency: `time` that each round trip of the relay to the database takes longer")
	flags.DurationVar(&o.duration, "duration", 20*time.Second, "destinations: steady traffic beside one in trouble")
	flags.StringVar(&o.only, "only", "",
		"latency, trouble, destinations, cluster: only the cases of which the name contains this text")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: go run . [STUDY] [flags]\n\nSTUDY is all, or one of")
		for _, s := range studies {
			fmt.Fprintf(flags.Output(), "  %-10s %s\n", s.name, s.about)
		}
		fmt.Fprintln(flags.Output())
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	found := false
	for _, s := range studies {
		if name != all && name != s.name {
			continue
		}
		found = true
		if err := measure(ctx, s, o); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if !found {
		flags.Usage()
		return fmt.Errorf("unknown study %q", name)
	}
	return nil
}

// measure runs one study and prints its table.
func measure(ctx context.Context, s study, o options) error {
	if o.rows == 0 {
		o.rows = s.rows
	}
	if o.rounds == 0 {
		o.rounds = s.rounds
	}
	if o.broker == "" {
		o.broker = s.broker
	}
	l, err := newLab(o)
	if err != nil {
		return err
	}
	defer l.close()
	var r report
	if err := s.run(ctx, l, &r); err != nil {
		return err
	}
	if len(r.lines) > 0 {
		fmt.Printf("\n%s: %s\n\n", s.name, s.about)
		r.print(os.Stdout)
		fmt.Println()
	}
	return nil
}
