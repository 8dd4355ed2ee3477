// Command chaos disturbs the relay in every known way, by a schedule drawn from a seed, and then judges what was
// delivered. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/outbox-relay/outbox-relay/test/chaos/broker"
	"github.com/outbox-relay/outbox-relay/test/chaos/plan"
	"github.com/outbox-relay/outbox-relay/test/chaos/scene"
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
	scene    string
	relay    string // path of the binary
	checkout string // folder that contains dev/services.sh
	seed     uint64
	seeds    int
	duration time.Duration
	patience time.Duration
	replicas int
	clean    bool
	cluster  bool
	external bool
	keep     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := options{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.broker, "broker", "nats", strings.Join(broker.Kinds, ", "))
	flags.StringVar(&o.scene, "scene", scene.One, strings.Join(scene.Names, ", "))
	flags.StringVar(&o.relay, "relay", "../../outbox-relay", "path of the relay's binary")
	flags.StringVar(&o.checkout, "checkout", "../..", "path of the checkout, for dev/services.sh")
	flags.Uint64Var(&o.seed, "seed", 0, "draws the schedule; 0 for a new one")
	flags.IntVar(&o.seeds, "seeds", 1, "runs, with as many seeds in a row")
	flags.DurationVar(&o.duration, "duration", time.Minute, "how long rows are written and faults begin")
	flags.DurationVar(&o.patience, "patience", time.Minute,
		"how long nothing may be settled, after everything has healed, until it "+
			"counts as stuck")
	flags.IntVar(&o.replicas, "replicas", 0, "replicas at the beginning, 1 to 4; 0 leaves it to the seed")
	flags.BoolVar(&o.clean, "clean", false, "only faults after which nothing may be delivered twice")
	flags.BoolVar(&o.cluster, "cluster", false,
		"three nodes of the broker, which are lost in every known way one after the other")
	flags.BoolVar(&o.external, "external", false,
		"use the servers of the TEST_ variables, which are not killed, instead of our own")
	flags.BoolVar(&o.keep, "keep", false, "keep the relays' logs, also of a run without violations")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		return exitUsage
	}
	if flags.NArg() > 0 || !slices.Contains(broker.Kinds, o.broker) || !slices.Contains(scene.Names, o.scene) ||
		o.duration < 5*time.Second ||
		o.seeds < 1 || o.cluster && o.external || o.replicas < 0 || o.replicas > plan.MaxReplicas {
		fmt.Fprintf(stderr, "chaos: --broker is one of %s; --scene is one of %s; --duration is 5s or more; --seeds is "+
			"positive; "+
			"--replicas is 1 to %d; --cluster excludes --external\n", strings.Join(broker.Kinds, ", "),
			strings.Join(scene.Names, ", "), plan.MaxReplicas)
		return exitUsage
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	kept, err := play(ctx, o, stdout)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "chaos: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitFailed
	case !kept:
		return exitFailed
	}
	return exitDone
}

// play plays all seeds on the same servers, and reports whether every promise was kept.
func play(ctx context.Context, o options, out io.Writer) (kept bool, err error) {
	s, err := openSite(ctx, o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	kept = true
	var all []result
	for i := range o.seeds {
		o.seed += uint64(min(i, 1))
		one := &game{options: o, site: s, out: out}
		result, err := one.play(ctx)
		if err != nil {
			return false, fmt.Errorf("seed %d: %w", o.seed, err)
		}
		all = append(all, result)
		kept = kept && len(result.violations) == 0
	}
	if o.seeds > 1 {
		sum(out, o, all)
	}
	return kept, nil
}
