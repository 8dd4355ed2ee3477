package main

import (
	"fmt"
	"io"
	"slices"
)

// report is the table of a study: figures beside their references, with targets and verdicts.
type report struct{ lines [][]string }

// bound is a target.
type bound struct {
	most  bool
	value float64
}

func atLeast(value float64) bound { return bound{value: value} }

func atMost(value float64) bound { return bound{true, value} }

func (b bound) text(format string) string {
	if b.most {
		return "≤ " + fmt.Sprintf(format, b.value)
	}
	return "≥ " + fmt.Sprintf(format, b.value)
}

func (b bound) verdict(value float64) string {
	if b.most && value <= b.value || !b.most && value >= b.value {
		return "reached"
	}
	return "missed"
}

const none = "–"

// compare adds a figure whose ratio to a reference has a target. Both are given once for each round. The ratio is the
// median of the rounds' ratios, since what disturbs one run of a round disturbs the other too.
func (r *report) compare(on, what, format string, measured, references []float64, b bound) {
	line := beside(on, what, format, measured, references)
	ratio := middle(ratios(measured, references))
	r.lines = append(r.lines, append(line, "ratio "+b.text("%.2f"), b.verdict(ratio)))
}

// contrast adds a figure and a reference without a target.
func (r *report) contrast(on, what, format string, measured, references []float64) {
	r.lines = append(r.lines, append(beside(on, what, format, measured, references), none, none))
}

func beside(on, what, format string, measured, references []float64) []string {
	return []string{
		on, what, fmt.Sprintf(format, middle(measured)), fmt.Sprintf(format, middle(references)),
		fmt.Sprintf("%.2f", middle(ratios(measured, references))),
	}
}

func ratios(measured, references []float64) []float64 {
	all := make([]float64, len(measured))
	for i := range measured {
		all[i] = measured[i] / references[i]
	}
	return all
}

// judge adds a figure that has a target of its own.
func (r *report) judge(on, what, format string, value float64, b bound) {
	r.lines = append(r.lines, []string{
		on, what, fmt.Sprintf(format, value), none, none, b.text(format),
		b.verdict(value),
	})
}

// judgeBeside adds a figure that has a target of its own, and a reference.
func (r *report) judgeBeside(on, what, format string, value, reference float64, b bound) {
	r.lines = append(r.lines,
		append(beside(on, what, format, []float64{value}, []float64{reference}), b.text(format), b.verdict(value)))
}

// state adds a figure without a target.
func (r *report) state(on, what, format string, value float64) {
	r.lines = append(r.lines, []string{on, what, fmt.Sprintf(format, value), none, none, none, none})
}

// print prints the table, as Markdown.
func (r *report) print(w io.Writer) {
	heads := []string{"on", "what", "measured", "reference", "ratio", "target", "verdict"}
	rule := make([]string, len(heads))
	for i := range rule {
		rule[i] = "---"
	}
	lines := slices.Concat([][]string{heads, rule}, r.lines)
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
