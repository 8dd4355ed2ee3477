package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// trend is what --watch remembers about a destination.
type trend struct {
	relayed int64 // the last reported value
	at      float64
	rates   []float64 // rows per second, the latest last
	due     []float64
}

// mostTrend is how many values a sparkline shows.
const mostTrend = 60

// watch draws the report on a terminal once a second until ctx ends.
func (o *operating) watch(ctx context.Context, chosen operate.Selection, out io.Writer) error {
	p, trends := paintFor(out), map[string]*trend{}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // switches to the alternate screen and hides the cursor
	defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	return every(ctx, func() error {
		report, err := o.report(ctx, chosen)
		if err != nil {
			return selectionError(err)
		}
		for _, d := range report.Destinations {
			t := trends[d.Name]
			if t == nil {
				t = &trend{}
				trends[d.Name] = t
			}
			t.note(d, float64(report.At.UnixMicro())/1e6)
		}
		var text strings.Builder
		if err := writeStates(&text, report, p); err != nil {
			return err
		}
		fmt.Fprintln(&text)
		for _, d := range report.Destinations {
			t := trends[d.Name]
			if len(t.rates) > 0 {
				fmt.Fprintf(&text, "%s  relayed by the relay on this host  %s  %.0f/s\n", d.Name, p.green(sparkline(t.rates)),
					t.rates[len(t.rates)-1])
			}
			if len(t.due) > 0 {
				fmt.Fprintf(&text, "%s  due  %s  %.0f\n", d.Name, sparkline(t.due), t.due[len(t.due)-1])
			}
		}
		if err := writeDetails(&text, report, p); err != nil {
			return err
		}
		width, height := sizeOf(out)
		_, err = io.WriteString(out, frame(text.String(), width, height))
		return err
	})
}

// frame returns what replaces the last frame on a terminal. Lines for which there is no room are left out at the end, each line
// is cut at the width, and the previous contents are erased.
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

// note records the values of a report.
func (t *trend) note(d operate.Destination, now float64) {
	if d.Due != nil {
		t.due = last(append(t.due, float64(*d.Due)))
	}
	if d.Process == nil {
		return
	}
	if t.at > 0 && d.Process.Relayed >= t.relayed && now > t.at {
		t.rates = last(append(t.rates, float64(d.Process.Relayed-t.relayed)/(now-t.at)))
	}
	t.relayed, t.at = d.Process.Relayed, now
}

func last(values []float64) []float64 { return values[max(len(values)-mostTrend, 0):] }

// sparkline draws values as bars. The highest one is full.
func sparkline(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var out strings.Builder
	for _, v := range values {
		at := 0
		if most > 0 {
			at = min(int(v/most*float64(len(bars))), len(bars)-1)
		}
		out.WriteRune(bars[max(at, 0)])
	}
	return out.String()
}
