package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// watch draws the report on a terminal once a second until ctx ends.
func (o *operating) watch(ctx context.Context, chosen operate.Selection, out io.Writer) error {
	last := operate.Report{}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l\x1b[?7l") // alternate screen, no cursor, long lines are cut
	defer fmt.Fprint(out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	return o.everySecond(ctx, chosen, func(report operate.Report) error {
		rates := "\n"
		for i, d := range report.Destinations {
			if rate, known := rateOf(report, last, i); known {
				rates += fmt.Sprintf("%s  relayed by the relay on this host  %.0f/s\n", d.Name, rate)
			}
		}
		last = report
		_, err := io.WriteString(out, frame(statusText(report, rates), heightOf(out)))
		return err
	})
}

// rateOf returns how many rows of a destination were relayed each second between two reports of one process.
func rateOf(report, last operate.Report, destination int) (rate float64, known bool) {
	if report.Process == nil || last.Process == nil || !report.Process.StartedAt.Equal(last.Process.StartedAt) {
		return 0, false
	}
	now, before := report.Destinations[destination].Process, last.Destinations[destination].Process
	if now == nil || before == nil {
		return 0, false
	}
	return float64(now.Relayed-before.Relayed) / report.At.Sub(last.At).Seconds(), true
}

// frame returns what replaces the last frame on a terminal and erases the rest of it. Lines for which there is no room
// are left out at the end.
func frame(text string, height int) string {
	lines := slices.Collect(strings.Lines(text))
	if room := max(height-1, 1); len(lines) > room { // one line is the cursor's
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("… %d more lines in a higher terminal, or without --watch\n", more))
	}
	return "\x1b[H" + strings.ReplaceAll(strings.Join(lines, ""), "\n", "\x1b[K\r\n") + "\x1b[J"
}
