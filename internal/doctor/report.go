package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/printable"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A Report is all that was found.
type Report []Finding

// A Finding is one line of a report: what was found, and where. Its JSON names are fixed.
type Finding struct {
	Area        string `json:"area"` // database, table, replicas or destination
	Destination string `json:"destination,omitempty"`
	finding.Finding
}

func (r *Report) add(area, destination string, findings ...finding.Finding) {
	for _, f := range findings {
		*r = append(*r, Finding{area, destination, f})
	}
}

// Count returns how many findings have a severity.
func (r Report) Count(severity finding.Severity) int {
	n := 0
	for _, f := range r {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

// WriteJSON writes the report for machines: one object with the counts and the findings.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(printable.JSON(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Errors   int       `json:"errors"`
		Warnings int       `json:"warnings"`
		Findings []Finding `json:"findings"`
	}{r.Count(finding.Error), r.Count(finding.Warning), append([]Finding{}, r...)})
}

// WriteText writes the report for people: by area, with each remedy below its finding.
func (r Report) WriteText(w io.Writer) error {
	var out strings.Builder
	area := ""
	for _, f := range r {
		heading := f.Area
		if f.Destination != "" {
			heading += " " + f.Destination
		}
		if heading != area {
			fmt.Fprintf(&out, "%s%s\n", strings.Repeat("\n", min(len(area), 1)), heading)
			area = heading
		}
		check := f.Check
		if f.Subject != "" {
			check += " " + f.Subject
		}
		fmt.Fprintf(&out, "  %-7s  %s: %s\n", f.Severity, check, f.Found)
		if f.Remedy != "" {
			fmt.Fprintf(&out, "           -> %s\n", f.Remedy)
		}
	}
	fmt.Fprintf(&out, "\nerrors: %d, warnings: %d\n", r.Count(finding.Error), r.Count(finding.Warning))
	_, err := io.WriteString(w, out.String())
	return err
}
