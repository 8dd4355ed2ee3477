// Package health serves the relay's HTTP interface for operators and Kubernetes: liveness, readiness, metrics, status
// and the doorbell.
package health

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/outbox-relay/outbox-relay/relay"
)

// A Server answers until the context of Run ends. The fields are its configuration; set them before Run and do not
// change them afterwards. A nil field other than Logger leaves its path out.
type Server struct {
	Addr string // host:port; port 0 takes any free port
	// path of a file that says how the port is protected, in the format of exporter-toolkit's web configuration; may be
	// empty
	Config string

	// Live returns why the relay's loops have stopped making progress, or nil. It must not depend on the database or a
	// broker: a restart would not bring them back.
	Live func() error
	// Ready returns every check that readiness depends on. It is called for each request, so it should report what is
	// known rather than find out.
	Ready func() []relay.Check
	// Metrics serves /metrics.
	Metrics http.Handler
	// Status returns the report that /status answers as JSON and the page at / shows. details adds details that name
	// hosts and roles.
	Status func(ctx context.Context, details bool) any
	// Doorbell wakes the relay. It must not block.
	Doorbell func()
	// Pprof serves Go's profiles below /debug/pprof/, for callers on this host.
	Pprof bool

	Logger *slog.Logger
	// Listening, if set, is called once with the address that the server listens on.
	Listening func(net.Addr)
}

// drain is how long requests in progress may take when the server stops.
const drain = time.Second

// writeTimeout allows for a scrape whose gauges query a slow database. A profile takes as much longer as it runs.
const writeTimeout = 30 * time.Second

// Run listens and serves until ctx ends, then gives requests in progress a second to finish. It then returns nil;
// otherwise it returns the error that kept it from listening or serving.
func (s *Server) Run(ctx context.Context) error {
	c, err := readWebConfig(s.Config)
	if err != nil {
		return fmt.Errorf("protect the port: %w", err)
	}
	g := &guard{path: s.Config, logger: s.Logger, current: c}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	server := &http.Server{
		Handler:           s.handler(g),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug), // clients' broken connections
	}
	served := make(chan error, 1) // has room, since nobody waits for it after Shutdown
	if c.server != nil {
		current := func(*tls.ClientHelloInfo) (*tls.Config, error) { return g.config().server, nil }
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: current})
	}
	go func() { served <- server.Serve(listener) }()
	if s.Listening != nil {
		s.Listening(listener.Addr())
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve health checks: %w", err)
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(deadline); err != nil {
		server.Close() // cuts off requests that are still in progress
	}
	return nil
}
