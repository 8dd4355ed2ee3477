package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/health"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

func (p *program) statusCommand() *cobra.Command {
	asJSON, watching := false, false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show waiting rows by destination and topic, and the replicas; with --id where a row is",
		Long: `Show the rows that are due, scheduled, waiting for a retry, held and failed, by destination and topic,
how long the oldest has been due, and the replicas with their shards. Counts stop at 10001. With --id, status shows
where these rows are, and why. Which rows are held, and why, only a running relay knows: status asks the one on this
host (OUTBOX_HTTP_ADDR), and leaves this part out if there is none.
` + selectionHelp,
		Example: `  outbox-relay status --watch
  outbox-relay status --json | jq '.destinations[] | {name, due, failed, oldest_age_seconds}'
  outbox-relay status --id 0194c6fc-2a8e-7d3b-9c1f-5b7e2f0a4d61`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, for machines")
	cmd.Flags().BoolVar(&watching, "watch", false, "show it again each second, until stopped")
	return p.selecting(config.NeedDatabase, cmd, "inserted", func(cmd *cobra.Command, chosen operate.Selection,
		c *config.Config, o *operate.Outbox,
	) error {
		out := cmd.OutOrStdout()
		drawing := watching && !asJSON && isTerminal(out) // otherwise one report follows the other
		show := func(report operate.Report) error {
			text := statusText(report)
			switch {
			case watching && asJSON:
				return writeJSON(out, report, "")
			case asJSON:
				return writeJSON(out, report, "  ")
			case drawing:
				text = frame(text, heightOf(out))
			}
			_, err := io.WriteString(out, text)
			return err
		}
		if drawing {
			fmt.Fprint(out, "\x1b[?1049h\x1b[?25l\x1b[?7l") // alternate screen, no cursor, long lines are cut
			defer fmt.Fprint(out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
		}
		for ctx := cmd.Context(); ; {
			report, err := reportOf(ctx, c, o, chosen)
			if err == nil {
				err = show(report)
			}
			if !watching || err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	})
}

// reportOf reads the table, and asks the relay on this host.
func reportOf(ctx context.Context, c *config.Config, o *operate.Outbox, chosen operate.Selection) (
	operate.Report, error,
) {
	// Ids choose the rows that are shown, not those that are counted.
	ids := chosen.IDs
	chosen.IDs = nil
	report, err := o.ReportOf(ctx, chosen, 5*time.Second)
	if err == nil && len(ids) > 0 {
		report.Rows, err = o.RowsOf(ctx, ids, chosen.Destination, time.Second)
	}
	if err != nil {
		return report, err
	}
	askLocal(ctx, c, &report)
	if missing := len(ids) - len(report.Rows); missing > 0 {
		report.Note(fmt.Sprintf("there is no row with %d of the ids that were given", missing))
	}
	return report, nil
}

// askLocal adds to a report what only the relay on this host knows.
func askLocal(ctx context.Context, c *config.Config, r *operate.Report) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var known operate.Report
	body, err := health.Here{Addr: c.HTTPAddr, Config: c.HTTPConfig}.Get(ctx, "/status")
	if err == nil {
		err = json.Unmarshal(body, &known)
	}
	if err == nil && known.Table != r.Table {
		err = fmt.Errorf("that of table %s does", known.Table)
	}
	if err != nil {
		r.Note(fmt.Sprintf("what is held, and why, only a running relay knows, and none answers at "+
			"OUTBOX_HTTP_ADDR=%s: run this beside one without OUTBOX_STATUS_PAGE=off (%s)", c.HTTPAddr,
			errtext.Line(err)))
		return
	}
	r.Process = known.Process
	for _, d := range known.Destinations {
		for i := range r.Destinations {
			if mine := &r.Destinations[i]; mine.Name == d.Name && d.Process != nil {
				mine.AddProcess(d.Process) // the relay may have had no time to count the rows counted here
			}
		}
	}
}

// frame returns what replaces the last frame on a terminal and erases the rest of it. The lines at the end for which
// there is no room are left out.
func frame(text string, height int) string {
	lines := strings.SplitAfter(text, "\n")
	return "\x1b[H\x1b[K" + strings.Join(lines[:min(len(lines), height-1)], "\x1b[K") + "\x1b[J"
}
