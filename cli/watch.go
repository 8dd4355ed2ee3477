package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// watch draws the report on a terminal once a second until ctx ends. The states come first and the details last, because
// what does not fit on the terminal is left out at the end.
func (o *operating) watch(ctx context.Context, chosen operate.Selection, out io.Writer) error {
	p, last := paintFor(out), operate.Report{}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // switches to the alternate screen and hides the cursor
	defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	return o.everySecond(ctx, chosen, func(report operate.Report) error {
		var text strings.Builder
		if err := writeStates(&text, report, p); err != nil {
			return err
		}
		fmt.Fprintln(&text)
		for i, d := range report.Destinations {
			if rate, known := rateOf(report, last, i); known {
				fmt.Fprintf(&text, "%s  relayed by the relay on this host  %.0f/s\n", d.Name, rate)
			}
		}
		last = report
		if err := writeDetails(&text, report, p); err != nil {
			return err
		}
		width, height := sizeOf(out)
		_, err := io.WriteString(out, frame(text.String(), width, height))
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

// frame returns what replaces the last frame on a terminal. Lines for which there is no room are left out at the end,
// each line is cut at the width, and the previous contents are erased.
func frame(text string, width, height int) string {
	lines := slices.Collect(strings.Lines(text))
	if room := max(height-1, 1); len(lines) > room { // one line is the cursor's
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("… %d more lines in a higher terminal, or without --watch\n", more))
	}
	var out strings.Builder
	out.WriteString("\x1b[H")
	for _, line := range lines {
		out.WriteString(cutLine(strings.TrimSuffix(line, "\n"), width) + "\x1b[K\r\n")
	}
	return out.String() + "\x1b[J"
}

// cutLine cuts a line at a width, not counting colour sequences.
func cutLine(line string, width int) string {
	visible, inside := 0, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			inside = true
		case inside:
			inside = r != 'm'
		default:
			if visible++; visible > width {
				return line[:i] + "\x1b[0m"
			}
		}
	}
	return line
}
