// Command demo shows the relay at work and checks what it did. An application writes orders and the messages about
// them. The relay, run from its real binary, publishes the messages, and a consumer reads the broker. The command ends
// by itself and removes everything that it made.
//
// `make demo` starts it with what it needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outbox-relay/outbox-relay/test/demo/broker"
	"github.com/outbox-relay/outbox-relay/test/demo/ledger"
	"github.com/outbox-relay/outbox-relay/test/demo/recording"
)

// Exit status, as of the relay.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 3
)

type options struct {
	broker   string
	relay    string // path of the binary
	duration time.Duration
	patience time.Duration
	workers  int
	rate     int
	scene    string
	large    int
	record   string // file to draw what was shown into
}

// The scenes, and the sets of brokers of the scene fanout other than NATS alone.
const (
	sceneRestart = "restart"
	sceneFanout  = "fanout"
	allBrokers   = "all"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.scene, "scene", sceneRestart, sceneRestart+", or "+sceneFanout+
		": each row has four destinations, of which one is away for a time and one refuses rows")
	flags.StringVar(&o.broker, "broker", "nats", strings.Join(broker.Kinds, ", ")+"; with the scene "+sceneFanout+
		" nats or "+allBrokers)
	flags.IntVar(&o.large, "large", 1000, "in the scene "+sceneFanout+", one row in so many is refused")
	flags.StringVar(&o.record, "record", "", "draw what a terminal would show into this SVG, and show nothing")
	flags.StringVar(&o.relay, "relay", "../../outbox-relay", "path of the relay's binary")
	flags.DurationVar(&o.duration, "duration", 28*time.Second, "how long orders are taken")
	flags.DurationVar(&o.patience, "patience", 10*time.Second,
		"how long nothing may arrive until what is outstanding counts as missing")
	flags.IntVar(&o.workers, "workers", 4, "workers of the application")
	flags.IntVar(&o.rate, "rate", 200, "transactions a second")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		return exitUsage
	}
	kinds := map[string][]string{sceneRestart: broker.Kinds, sceneFanout: {"nats", allBrokers}}[o.scene]
	switch {
	case kinds == nil:
		fmt.Fprintf(stderr, "demo: --scene is %s or %s\n", sceneRestart, sceneFanout)
		return exitUsage
	case flags.NArg() > 0 || !slices.Contains(kinds, o.broker) || o.duration < time.Second || o.workers < 1 ||
		o.rate < 1 || o.large < 1:
		fmt.Fprintf(stderr, "demo: --broker is one of %s; --duration is 1s or more; --workers, --rate and --large are "+
			"positive\n",
			strings.Join(kinds, ", "))
		return exitUsage
	}
	d := &demo{options: o, url: getenv("TEST_DATABASE_URL"), ledger: ledger.New()}
	play := d.play
	if o.scene == sceneFanout {
		play = d.playFanout
	}
	var recorded *recording.Recording
	if o.record != "" {
		recorded = &recording.Recording{Pace: time.Second}
		stdout = recorded
	}
	right, err := play(ctx, getenv, stdout)
	if recorded != nil && err == nil {
		err = recorded.Save(o.record, "make demo")
	}
	status := exitDone
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "demo: interrupted")
		status = exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "demo: %v\n", err)
		status = exitFailed
	case !right:
		status = exitFailed
	}
	if err := errors.Join(d.left...); err != nil {
		fmt.Fprintf(stderr, "demo: cleaning up: %v\n", err)
		return exitFailed
	}
	return status
}
