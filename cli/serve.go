package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/health"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// servers returns the servers that run needs.
func servers(c *config.Config, a *assembly, logger *slog.Logger) []*health.Server {
	main := &health.Server{
		Addr: c.HTTPAddr, Config: c.HTTPConfig, Live: a.Live, Ready: a.Ready, Doorbell: a.Ring, Logger: logger,
	}
	if c.StatusPage {
		started := time.Now().UTC()
		main.Status = func(ctx context.Context, details bool) any { return liveReport(ctx, a, started, details) }
	}
	all := []*health.Server{main}
	if metrics := a.telemetry.Handler(); c.MetricsAddr == "" || c.MetricsAddr == c.HTTPAddr {
		main.Metrics = metrics
	} else {
		all = append(all, &health.Server{Addr: c.MetricsAddr, Config: c.HTTPConfig, Metrics: metrics, Logger: logger})
	}
	if c.PprofAddr != "" {
		all = append(all, &health.Server{Addr: c.PprofAddr, Pprof: true, Logger: logger})
	}
	return all
}

// serve serves HTTP until ctx ends. If one address cannot be served, it calls stop, and the error names the address.
func serve(ctx context.Context, all []*health.Server, stop func()) error {
	failures := make([]error, len(all))
	var group sync.WaitGroup
	for i, server := range all {
		group.Go(func() {
			if err := server.Run(ctx); err != nil {
				failures[i] = fmt.Errorf("serve HTTP on %s, as OUTBOX_HTTP_ADDR, OUTBOX_METRICS_ADDR or "+
					"OUTBOX_PPROF_ADDR says: %w", server.Addr, err)
				stop()
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// liveReport is the report of /status: what the relay knows now, and which build it is. The page is served to whoever
// reaches the port, unless OUTBOX_HTTP_CONFIG asks for a password; without details the report names neither hosts nor
// roles.
func liveReport(ctx context.Context, a *assembly, started time.Time, details bool) (r operate.Report) {
	if err := json.Unmarshal(a.Report(ctx, details), &r); err != nil {
		r.Note("the report cannot be read: " + err.Error())
		return r
	}
	build := thisBuild()
	r.Process.Version, r.Process.Commit, r.Process.StartedAt = build.Version, build.Commit, started
	return r
}
