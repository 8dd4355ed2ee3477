package cli

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Main is the program: it executes the command that the arguments name, stops it at the first signal to do so, and exits with its status.
// The options add brokers to those that the relay knows.
func Main(options ...func(*program)) {
	p := &program{schemes: map[string]opener{}}
	for _, add := range options {
		add(p)
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopping()...)
	go obey(signals, stop, os.Stderr, os.Exit)
	os.Exit(p.execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Scheme adds a broker of one's own: publish URLs with this scheme are its, and open makes their publishers, without reaching the broker.
// url returns the publish URL as it is when it is called: one that is given as a file may hold another password later. open is called
// again after a panic in the last publisher.
func Scheme(scheme string, open func(url func() (string, error), logger *slog.Logger) (publisher.Publisher, error)) func(*program) {
	return func(p *program) { p.schemes[strings.ToLower(scheme)] = open }
}

// An opener makes the publisher of a destination; see [Scheme].
type opener = func(url func() (string, error), logger *slog.Logger) (publisher.Publisher, error)

// A program is the relay with the brokers of one's own that it has been given.
type program struct {
	schemes map[string]opener
}

// load reads the configuration for a command that connects to the database and the brokers.
func (p *program) load() (*config.Config, error) { return config.Load(p.names()...) }

// loadDatabase reads it for a command that connects to the database only.
func (p *program) loadDatabase() (*config.Config, error) { return config.LoadDatabase(p.names()...) }

// loadOffline reads it for a command that connects to nothing.
func (p *program) loadOffline() (*config.Config, error) { return config.LoadOffline(p.names()...) }

func (p *program) names() []string { return slices.Collect(maps.Keys(p.schemes)) }
