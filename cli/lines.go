package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// writeJSON writes a value as JSON: in one line, or indented.
func writeJSON(out io.Writer, value any, indent string) error {
	encoder := json.NewEncoder(printable.JSON(out))
	encoder.SetIndent("", indent)
	return encoder.Encode(value)
}

// writeColumns writes lines whose cells are aligned.
func writeColumns(w io.Writer, lines [][]string) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		fmt.Fprintln(out, strings.Join(cells, "\t")) // an error is that of Flush, too
	}
	return out.Flush()
}

// lines prints a line for each of many things: JSON for machines, aligned cells below a heading for people.
type lines struct {
	out   io.Writer
	json  bool
	cells [][]string // the heading, and what end prints below it
}

// print prints a thing, or keeps its cells for end.
func (l *lines) print(thing any, cells ...string) error {
	if l.json {
		return writeJSON(l.out, thing, "")
	}
	l.cells = append(l.cells, cells)
	return nil
}

// end prints the aligned lines, if there are any; those that follow have the heading again.
func (l *lines) end() error {
	all := l.cells
	if l.cells = all[:1:1]; len(all) == 1 {
		return nil
	}
	return writeColumns(l.out, all)
}
