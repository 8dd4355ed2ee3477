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

// port is an address at which run serves HTTP, and the setting that names it.
type port struct {
	setting string
	server  *health.Server
}

// ports returns the servers that run needs.
func ports(c *config.Config, a *assembly, logger *slog.Logger) []port {
	main := port{setting: "OUTBOX_HTTP_ADDR=" + c.HTTPAddr, server: &health.Server{
		Addr: c.HTTPAddr, Config: c.HTTPConfig, Live: a.Live,
		Ready: a.Ready, Doorbell: a.Ring, Logger: logger,
	}}
	if c.StatusPage {
		started := time.Now().UTC()
		main.server.Status = func(ctx context.Context, details bool) any {
			return liveReport(ctx, a, started, details)
		}
	}
	all := []port{main}
	if metrics := a.telemetry.Handler(); c.MetricsAddr == "" || c.MetricsAddr == c.HTTPAddr {
		main.server.Metrics = metrics
	} else {
		all = append(all, port{
			setting: "OUTBOX_METRICS_ADDR=" + c.MetricsAddr,
			server:  &health.Server{Addr: c.MetricsAddr, Config: c.HTTPConfig, Metrics: metrics, Logger: logger},
		})
	}
	if c.PprofAddr != "" {
		all = append(all, port{
			setting: "OUTBOX_PPROF_ADDR=" + c.PprofAddr,
			server:  &health.Server{Addr: c.PprofAddr, Pprof: true, Logger: logger},
		})
	}
	return all
}

// serve serves HTTP until ctx ends. If one address cannot be served, it calls stop, and the error names the address.
func serve(ctx context.Context, all []port, stop func()) error {
	failures := make([]error, len(all))
	var group sync.WaitGroup
	for i, p := range all {
		group.Go(func() {
			if err := p.server.Run(ctx); err != nil {
				failures[i] = fmt.Errorf("serve HTTP on %s: %w", p.setting, err)
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
