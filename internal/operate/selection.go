package operate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A Selection says which rows are meant. The zero Selection means all rows.
type Selection struct {
	IDs          []string
	Topics       []string  // patterns, like a destination's
	Key          *string   // nil: any key or none
	Since, Until time.Time // when the row came into the requested state; Since is inclusive
	Error        string    // a part of the last error, case-insensitive
	Destination  string    // empty for all
}

// IsZero reports whether nothing was selected.
func (s Selection) IsZero() bool {
	return len(s.IDs) == 0 && len(s.Topics) == 0 && s.Key == nil && s.Since.IsZero() && s.Until.IsZero() &&
		s.Error == "" && s.Destination == ""
}

// parameters gathers the parameters of a statement.
type parameters []any

// add adds a parameter and returns its placeholder.
func (p *parameters) add(value any) string {
	*p = append(*p, value)
	return fmt.Sprintf("$%d", len(*p))
}

// condition is the selection in SQL, to be added to another condition. at is the column to which Since and Until apply.
func (s Selection) condition(n *outbox.Table, at outbox.Column, p *parameters) (string, error) {
	var all strings.Builder
	and := func(format string, args ...any) { fmt.Fprintf(&all, " and "+format, args...) }
	if len(s.IDs) > 0 {
		and("%s = any (%s::text[]::%s[])", n.ID.Name, p.add(s.IDs), n.IDType())
	}
	if len(s.Topics) > 0 {
		and("(%s)", pattern.SQL(pattern.Text(n.Topic.Name), s.Topics))
	}
	if s.Key != nil {
		and("%s = %s::text", n.Key, p.add(*s.Key))
	}
	if !at.Has() && !(s.Since.IsZero() && s.Until.IsZero()) {
		return "", fmt.Errorf("--since and --until cannot be used: table %s has no column that says when", n.Quoted())
	}
	if !s.Since.IsZero() {
		and("%s >= %s", at.Name, at.At(p.add(s.Since.UTC())))
	}
	if !s.Until.IsZero() {
		and("%s < %s", at.Name, at.At(p.add(s.Until.UTC())))
	}
	if s.Error != "" {
		if !n.LastError.Has() {
			return "", fmt.Errorf("--error cannot be used: table %s has no column for the last error", n.Quoted())
		}
		and("strpos(lower(%s), lower(%s::text)) > 0", n.LastError.Name, p.add(s.Error))
	}
	return all.String(), nil
}

// An UnknownDestinationError says that --destination names none of the destinations.
type UnknownDestinationError struct {
	Name  string
	Known []string
}

func (e *UnknownDestinationError) Error() string {
	return fmt.Sprintf("there is no destination %q; there are %s", e.Name, strings.Join(e.Known, ", "))
}

// chosen returns the sets of destinations that a selection covers.
func (o *Outbox) chosen(s Selection) ([]set, error) {
	if s.Destination == "" {
		return o.sets(), nil
	}
	var known []string
	for i, v := range o.Views {
		if v.Name == s.Destination {
			divided := len(o.Views) > 1 && v.Columns == nil && v.Table.Taken != pattern.Always
			return []set{{table: v.Table, views: []int{i}, divided: divided}}, nil
		}
		known = append(known, v.Name)
	}
	return nil, &UnknownDestinationError{s.Destination, known}
}

// A pick is the rows of a selection that are in some state, as a set of destinations has them.
type pick struct {
	set    set
	state  string
	chosen string // the selection, to be added to the state; empty for all rows
	values parameters

	cursor string // of a [Choice]
	rows   int64
}

// where is the condition for the rows.
func (p pick) where() string { return p.state + p.chosen }

// pick returns the rows of a selection that are in some state. in returns the state's condition for a table, the column
// with the time when a row came into it, and why the table has no such rows. Sets of destinations that can have no such
// rows are left out, unless no set can have any, which is a mistake in the selection.
func (o *Outbox) pick(s Selection, in func(*outbox.Table) (state string, since outbox.Column, err error)) (
	picks []pick, first error,
) {
	sets, err := o.chosen(s)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		p := pick{set: set}
		state, since, err := in(set.table)
		if err == nil {
			if p.state = state; s.Destination != "" {
				p.state += " and " + set.table.Taken
			}
			p.chosen, err = s.condition(set.table, since, &p.values)
		}
		if err == nil {
			picks = append(picks, p)
		}
		first = cmp.Or(first, err)
	}
	if len(picks) > 0 {
		first = nil
	}
	return picks, first
}
