package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// result is what the rounds of one program with one broker came to.
type result struct {
	broker, program string
	rows            int
	drains          []drain
}

func median[T cmp.Ordered](drains []drain, value func(drain) T) T {
	values := make([]T, len(drains))
	for i, d := range drains {
		values[i] = value(d)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// rate is the median of rows a second.
func (r result) rate() float64 {
	return median(r.drains, func(d drain) float64 { return float64(r.rows) / d.elapsed.Seconds() })
}

// memory is the largest of the peaks.
func (r result) memory() int64 {
	return slices.MaxFunc(r.drains, func(a, b drain) int { return cmp.Compare(a.memory, b.memory) }).memory
}

// perRow returns a median time for each row, in microseconds, or a dash.
func (r result) perRow(value func(drain) time.Duration) string {
	m := median(r.drains, value)
	if m == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", float64(m)/float64(time.Microsecond)/float64(r.rows))
}

// line is a row of the table; yardstick is the result beside it, nil for the yardstick's own.
func (r result) line(yardstick *result) []string {
	rates := make([]float64, len(r.drains))
	for i, d := range r.drains {
		rates[i] = float64(r.rows) / d.elapsed.Seconds()
	}
	ratio, ready := "–", "–"
	if yardstick != nil {
		ratio = fmt.Sprintf("%.2f", r.rate()/yardstick.rate())
		ready = fmt.Sprint(median(r.drains, func(d drain) time.Duration { return d.ready }).Milliseconds())
	}
	return []string{r.broker, r.program,
		fmt.Sprintf("%.1f k", r.rate()/1000),
		fmt.Sprintf("%.1f to %.1f k", slices.Min(rates)/1000, slices.Max(rates)/1000),
		ratio,
		r.perRow(func(d drain) time.Duration { return d.itself }),
		r.perRow(func(d drain) time.Duration { return d.database }),
		r.perRow(func(d drain) time.Duration { return d.broker }),
		fmt.Sprint(median(r.drains, func(d drain) int64 { return d.log }) / int64(r.rows)),
		fmt.Sprintf("%.0f", float64(r.memory())/(1<<20)),
		ready}
}

var heads = []string{"broker", "program", "rows/s", "lowest to highest", "ratio", "own µs/row", "PostgreSQL µs/row", "broker µs/row", "WAL B/row", "peak MiB", "ready ms"}

// report prints the table, as Markdown.
func report(w io.Writer, results []result) {
	lines := [][]string{heads, nil}
	for range heads {
		lines[1] = append(lines[1], "---")
	}
	for i := 0; i+1 < len(results); i += 2 { // yardstick and relay by turns
		lines = append(lines, results[i].line(nil), results[i+1].line(&results[i]))
	}
	for _, line := range lines {
		fmt.Fprint(w, "|")
		for column, cell := range line {
			width := 0
			for _, other := range lines {
				width = max(width, len([]rune(other[column])))
			}
			fmt.Fprintf(w, " %-*s |", width, cell)
		}
		fmt.Fprintln(w)
	}
}

// verdict says which targets were missed.
func verdict(results []result, binary int64) (missed []string) {
	miss := func(format string, args ...any) { missed = append(missed, fmt.Sprintf(format, args...)) }
	const mib = 1 << 20
	if binary > 25*mib {
		miss("the binary has %d MiB, more than 25", binary/mib)
	}
	for i := 1; i < len(results); i += 2 {
		yardstick, relay := results[i-1], results[i]
		if rate := relay.rate(); relay.broker != "rabbitmq" && rate < 25_000 {
			miss("%s: %.0f rows/s, fewer than 25,000", relay.broker, rate)
		}
		if ratio := relay.rate() / yardstick.rate(); ratio < 0.5 {
			miss("%s: %.2f of the yardstick, less than half", relay.broker, ratio)
		}
		if memory := relay.memory(); memory > 60*mib {
			miss("%s: %d MiB of memory, more than 60", relay.broker, memory/mib)
		}
		if ready := median(relay.drains, func(d drain) time.Duration { return d.ready }); ready > 300*time.Millisecond {
			miss("%s: ready after %v, later than 300 ms", relay.broker, ready)
		}
	}
	return missed
}
