package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/outbox-relay/outbox-relay/internal/printable"
)

// writeJSON writes a value as a line of JSON.
func writeJSON(out io.Writer, value any) error {
	return json.NewEncoder(printable.JSON(out)).Encode(value)
}

// columns returns a writer that aligns what tabs separate.
func columns(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// writeColumns writes lines whose cells are aligned.
func writeColumns(w io.Writer, lines [][]string) error {
	out := columns(w)
	for _, cells := range lines {
		fmt.Fprintln(out, strings.Join(cells, "\t")) // an error is that of Flush, too
	}
	return out.Flush()
}

// lines prints a line for each of many things: JSON for machines, aligned cells below a heading for people.
type lines struct {
	out     io.Writer
	json    bool
	heading string // its cells are separated by tabs
	aligned *tabwriter.Writer
}

// print prints a thing, or its cells.
func (l *lines) print(thing any, cells ...string) error {
	if l.json {
		return writeJSON(l.out, thing)
	}
	if l.aligned == nil {
		l.aligned = columns(l.out)
		fmt.Fprintln(l.aligned, l.heading)
	}
	_, err := fmt.Fprintln(l.aligned, strings.Join(cells, "\t"))
	return err
}

// end ends the aligned lines; those that follow have a heading of their own.
func (l *lines) end() error {
	if l.aligned == nil {
		return nil
	}
	err := l.aligned.Flush()
	l.aligned = nil
	return err
}
