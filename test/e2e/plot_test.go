package e2e

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// plot is a panel with lines over time.
type plot struct {
	title, unit string
	lines       []line
}

type line struct {
	name string
	curve
}

// Sizes of a plot, in pixels.
const (
	plotWidth, plotHeight = 420, 190
	left, right           = 52, 12
	top, bottom           = 30, 46
)

// colours can be distinguished by people with colour blindness, and on light and dark backgrounds.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"}

// draw draws plots as SVG, two in a row. The time of the trouble, from from until to, is shaded.
func draw(plots []plot, from, to time.Time) string {
	start, end := from, to
	for _, p := range plots {
		for _, l := range p.lines {
			for _, at := range l.times {
				if at.Before(start) {
					start = at
				}
				if at.After(end) {
					end = at
				}
			}
		}
	}
	var b strings.Builder
	rows := (len(plots) + 1) / 2
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" role="img">`,
		2*plotWidth, rows*plotHeight)
	b.WriteString("<title>Panels of the dashboard over time</title>\n")
	b.WriteString("<style>text{fill:#24292f}.axis{stroke:#8c959f}.fault{fill:#d55e00;opacity:.12}.back{fill:#ffffff}" +
		"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}}</style>\n")
	fmt.Fprintf(&b, `<rect class="back" width="%d" height="%d"/>`+"\n", 2*plotWidth, rows*plotHeight)
	for i, p := range plots {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%2*plotWidth, i/2*plotHeight)
		p.draw(&b, start, end, from, to)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p plot) draw(b *strings.Builder, start, end, from, to time.Time) {
	highest := 0.0
	for _, l := range p.lines {
		for _, v := range l.values {
			if !math.IsNaN(v) {
				highest = max(highest, v)
			}
		}
	}
	highest = roundUp(highest)
	x := func(at time.Time) float64 {
		return left + (plotWidth-left-right)*at.Sub(start).Seconds()/end.Sub(start).Seconds()
	}
	y := func(v float64) float64 { return top + (plotHeight-top-bottom)*(1-v/highest) }
	fmt.Fprintf(b, `<text x="%d" y="18" font-size="13" font-weight="bold">%s</text>`+"\n", left,
		html.EscapeString(p.title))
	fmt.Fprintf(b, `<rect class="fault" x="%.1f" y="%d" width="%.1f" height="%d"/>`+"\n", x(from), top, x(to)-x(from),
		plotHeight-top-bottom)
	fmt.Fprintf(b, `<path class="axis" fill="none" d="M%d %dV%dH%d"/>`+"\n", left, top, plotHeight-bottom, plotWidth-right)
	for _, v := range []float64{0, highest / 2, highest} {
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-5, y(v)+4, tick(v, p.unit))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%.0f s</text>`+"\n", plotWidth-right, plotHeight-bottom+14,
		end.Sub(start).Seconds())
	at := float64(left)
	shown := 0
	for _, l := range p.lines {
		if !l.moves() && len(p.lines) > 3 { // lines that stay at 0 would only fill the legend
			continue
		}
		colour := colours[shown%len(colours)]
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="1.5" d="`, colour)
		pen := "M"
		for i, v := range l.values {
			if math.IsNaN(v) || i > 0 && l.times[i].Sub(l.times[i-1]) > time.Second {
				pen = "M"
			}
			if !math.IsNaN(v) {
				fmt.Fprintf(b, "%s%.1f %.1f", pen, x(l.times[i]), y(v))
				pen = "L"
			}
		}
		b.WriteString("\"/>\n")
		fmt.Fprintf(b, `<text x="%.0f" y="%d" style="fill:%s">%s</text>`+"\n", at, plotHeight-bottom+30, colour,
			html.EscapeString(l.name))
		at += 5.6*float64(len(l.name)) + 10
		shown++
	}
}

func (l line) moves() bool {
	for _, v := range l.values {
		if v > 0 {
			return true
		}
	}
	return false
}

// roundUp returns the next 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}

func tick(v float64, unit string) string {
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 {
		text = fmt.Sprintf("%.3gk", v/1000)
	}
	switch unit {
	case "s":
		return text + " s"
	case "rps":
		return text + "/s"
	}
	return text
}
