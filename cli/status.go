package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/health"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// countPatience bounds each look at the table's rows.
const countPatience = 5 * time.Second

func (p *program) statusCommand() *cobra.Command {
	var flags selection
	asJSON, watching := false, false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what waits, by destination and topic, and who relays; with --id where a row is",
		Long: `Show the rows that are due, scheduled for later, waiting for another try, held and failed, by destination and topic, for how long the oldest has
been due, and the replicas with their shards. Counting stops at 10001, and costs the same at any backlog. With --id it shows where these rows are,
and why. It changes nothing.

What only a running relay knows, which rows are held and why, is asked of the one on this host (OUTBOX_HTTP_ADDR); without one the rest is shown.
The other flags limit what is counted to some rows, of those that are looked at.
` + selectionHelp,
		Example: `  outbox-relay status --watch
  outbox-relay status --json | jq '.destinations[] | {name, due, failed, oldest_age_seconds}'
  kubectl exec deploy/shop -c outbox-relay -- /outbox-relay status --id 0194c6fc-2a8e-7d3b-9c1f-5b7e2f0a4d61`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if watching && !asJSON && !isTerminal(out) {
				return usageError(errors.New("--watch needs a terminal to draw on; without one, give --json for a line each second"))
			}
			chosen, o, err := flags.open(cmd)
			if err != nil {
				return err
			}
			defer o.close()
			switch {
			case watching && asJSON:
				return o.watchJSON(cmd.Context(), chosen, out)
			case watching:
				return o.watch(cmd.Context(), chosen, out)
			}
			report, err := o.report(cmd.Context(), chosen)
			if err != nil {
				return selectionError(err)
			}
			if missing := len(chosen.IDs) - len(report.Rows); missing > 0 && len(chosen.IDs) > 0 {
				report.Problems = append(report.Problems, fmt.Sprintf("there is no row with %d of the ids that were given", missing))
			}
			if asJSON {
				encoder := json.NewEncoder(out)
				encoder.SetIndent("", "  ")
				return encoder.Encode(report)
			}
			return writeStatus(out, report, paintFor(out))
		},
	}
	flags.add(p, cmd, "inserted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, for machines")
	cmd.Flags().BoolVar(&watching, "watch", false, "show it anew each second, until stopped")
	return cmd
}

// report asks the table, and the relay on this host.
func (o *operating) report(ctx context.Context, chosen operate.Selection) (operate.Report, error) {
	local := make(chan func(*operate.Report), 1)
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	go func() { local <- o.askLocal(asking) }()
	ids := chosen.IDs
	chosen.IDs = nil
	report, err := o.ReportOf(ctx, chosen, countPatience)
	if err == nil && len(ids) > 0 {
		report.Rows, err = o.RowsOf(ctx, ids, chosen.Destination, time.Second)
	}
	(<-local)(&report)
	return report, err
}

// askLocal asks the relay on this host for what only it knows, and returns what adds that to a report.
func (o *operating) askLocal(ctx context.Context) func(*operate.Report) {
	var known operate.Report
	body, err := health.Here{Addr: o.config.HTTPAddr, Config: o.config.HTTPConfig}.Get(ctx, "/status")
	if err == nil {
		err = json.Unmarshal(body, &known)
	}
	return func(r *operate.Report) {
		if err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("what is held, and why, only a running relay knows, and none answers at "+
				"OUTBOX_HTTP_ADDR=%s: run this beside one (%s)",
				o.config.HTTPAddr, errtext.Line(err)))
			return
		}
		if known.Table != r.Table {
			r.Problems = append(r.Problems, fmt.Sprintf("what is held, and why, is not known: the relay at OUTBOX_HTTP_ADDR=%s is that of table %s",
				o.config.HTTPAddr, known.Table))
			return
		}
		r.Process = known.Process
		for i := range r.Destinations {
			for _, d := range known.Destinations {
				if d.Name == r.Destinations[i].Name {
					r.Destinations[i].Held, r.Destinations[i].Process = d.Held, d.Process
				}
			}
		}
	}
}

// watchEvery is the pause between two looks of --watch.
const watchEvery = time.Second

// every calls a function now and once a second, until ctx ends, which is no error.
func every(ctx context.Context, do func() error) error {
	for {
		if err := do(); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

func (o *operating) watchJSON(ctx context.Context, chosen operate.Selection, out io.Writer) error {
	return every(ctx, func() error {
		report, err := o.report(ctx, chosen)
		if err != nil {
			return selectionError(err)
		}
		return json.NewEncoder(out).Encode(report)
	})
}
