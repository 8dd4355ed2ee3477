package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// trend is what --watch remembers about a destination.
type trend struct {
	relayed int64 // the last reported value
	at      time.Time
	rates   []float64 // rows per second, the latest last
	due     []float64
}

// mostTrend is how many values a sparkline shows.
const mostTrend = 60

// watch draws the report on a terminal once a second until ctx ends. The states come first and the details last, because
// what does not fit on the terminal is left out at the end.
func (o *operating) watch(ctx context.Context, chosen operate.Selection, out io.Writer) error {
	p, trends := paintFor(out), map[string]*trend{}
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l") // switches to the alternate screen and hides the cursor
	defer fmt.Fprint(out, "\x1b[?25h\x1b[?1049l")
	return o.everySecond(ctx, chosen, func(report operate.Report) error {
		var text strings.Builder
		if err := writeStates(&text, report, p); err != nil {
			return err
		}
		fmt.Fprintln(&text)
		for _, d := range report.Destinations {
			t := trends[d.Name]
			if t == nil {
				t = &trend{}
				trends[d.Name] = t
			}
			t.note(d, report.At)
			if n := len(t.rates); n > 0 {
				const what = "relayed by the relay on this host"
				fmt.Fprintf(&text, "%s  %s  %s  %.0f/s\n", d.Name, what, p.green(sparkline(t.rates)), t.rates[n-1])
			}
			if n := len(t.due); n > 0 {
				fmt.Fprintf(&text, "%s  due  %s  %.0f\n", d.Name, sparkline(t.due), t.due[n-1])
			}
		}
		if err := writeDetails(&text, report, p); err != nil {
			return err
		}
		width, height := sizeOf(out)
		_, err := io.WriteString(out, frame(text.String(), width, height))
		return err
	})
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

// note records the values of a report that was made at a time.
func (t *trend) note(d operate.Destination, now time.Time) {
	last := func(values []float64, value float64) []float64 {
		values = append(values, value)
		return values[max(len(values)-mostTrend, 0):]
	}
	if d.Due != nil {
		t.due = last(t.due, float64(*d.Due))
	}
	if d.Process == nil {
		return
	}
	rows, passed := d.Process.Relayed-t.relayed, now.Sub(t.at)
	if !t.at.IsZero() && rows >= 0 && passed > 0 { // fewer rows are of another process
		t.rates = last(t.rates, float64(rows)/passed.Seconds())
	}
	t.relayed, t.at = d.Process.Relayed, now
}

// sparkline draws values as bars. The highest one is full.
func sparkline(values []float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	most := max(slices.Max(values), math.SmallestNonzeroFloat64)
	var out strings.Builder
	for _, v := range values {
		out.WriteRune(bars[min(int(v/most*float64(len(bars))), len(bars)-1)])
	}
	return out.String()
}
