package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Main runs the program: it executes the command that the arguments name, stops it at the first stop signal, and exits
// with its status. The options add brokers to those that the relay supports.
func Main(options ...Option) {
	p := &program{schemes: map[string]opener{}}
	for _, o := range options {
		p.schemes[o.scheme] = o.open
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go obey(signals, stop, os.Stderr, os.Exit)
	os.Exit(p.execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// An Option adds a broker to the program; see [Scheme].
type Option struct {
	scheme string
	open   opener
}

// Scheme adds a custom broker: open makes the publishers for publish URLs with this scheme, without connecting to the
// broker. url returns the publish URL at the time of the call: a URL from a file may contain another password later.
// open is called again after a panic in the last publisher.
func Scheme(scheme string, open func(url func() (string, error), logger *slog.Logger) (publisher.Publisher, error),
) Option {
	return Option{strings.ToLower(scheme), open}
}

// An opener makes the publisher of a destination.
type opener = func(url func() (string, error), logger *slog.Logger) (publisher.Publisher, error)

// A program is the relay with its custom brokers.
type program struct {
	schemes map[string]opener
}

// load reads the configuration for a command that needs some of its parts.
func (p *program) load(needs config.Needs) (*config.Config, error) {
	return config.Load(needs, slices.Collect(maps.Keys(p.schemes))...)
}

// with completes a command that takes no arguments and needs some parts of the configuration.
func (p *program) with(needs config.Needs, cmd *cobra.Command, do func(*cobra.Command, *config.Config) error,
) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.load(needs)
		if err != nil {
			return usageError(err)
		}
		return do(cmd, c)
	}
	return cmd
}

// sameSignal is how long further signals count as the first one: a supervisor that signals a process and its group
// sends the signal twice.
const sameSignal = time.Second

// obey calls stop at the first signal. A later signal does not wait for the clean stop: obey reports that and exits. As
// the first process of a container the relay must exit by itself: the kernel would not end it by a signal that it does
// not handle.
func obey(signals <-chan os.Signal, stop func(), stderr io.Writer, exit func(status int)) {
	<-signals
	stop()
	first := time.Now()
	for s := range signals {
		if time.Since(first) < sameSignal {
			continue
		}
		fmt.Fprintf(stderr, "outbox-relay: stopped at once by a second signal (%v): rows that were not settled will "+
			"be published again\n", s)
		exit(exitUnfinished)
		return
	}
}
