package operate

import (
	"cmp"
	"fmt"
	"reflect"
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
	return reflect.DeepEqual(s, Selection{})
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
	if !at.Has() && !(s.Since.IsZero() && s.Until.IsZero()) {
		return "", fmt.Errorf("--since and --until cannot be used: table %s has no column that says when", n.Quoted())
	}
	if len(s.IDs) > 0 {
		and("%s = any (%s::text[]::%s[])", n.ID.Name, p.add(s.IDs), n.IDType())
	}
	if len(s.Topics) > 0 {
		and("(%s)", pattern.SQL(pattern.Text(n.Topic.Name), s.Topics))
	}
	if s.Key != nil {
		and("%s = %s::text", n.Key, p.add(*s.Key))
	}
	if !s.Since.IsZero() {
		and("%s >= %s", at.Name, at.At(p.add(s.Since.UTC())))
	}
	if !s.Until.IsZero() {
		and("%s < %s", at.Name, at.At(p.add(s.Until.UTC())))
	}
	if s.Error != "" {
		and("strpos(lower(%s), lower(%s::text)) > 0", n.LastError.Or("''"), p.add(s.Error))
	}
	return all.String(), nil
}

// chosen returns the sets of destinations that a selection covers, none if there is no destination of its name.
func (o *Outbox) chosen(s Selection) []set {
	if s.Destination == "" {
		return o.sets()
	}
	for i, n := range o.Views {
		if v := n.View(); v.Name == s.Destination {
			divided := len(o.Views) > 1 && v.Columns == nil && n.Taken != pattern.Always
			return []set{{table: n, views: []int{i}, divided: divided}}
		}
	}
	return nil
}

// A pick is the rows of a selection that are in some state, as a set of destinations has them.
type pick struct {
	set    set
	state  string
	chosen string // the selection, to be added to the state; empty for all rows
	values *parameters

	cursor string // of a [Choice]
	rows   int64
}

// where is the condition for the rows.
func (p pick) where() string { return p.state + p.chosen }

// A state returns a condition for rows of a table, the column with the time when a row came to fulfil it, and why the
// table has no such rows.
type state = func(*outbox.Table) (condition string, since outbox.Column, err error)

// pick returns the rows of a selection that are in some state. Sets of destinations that can have no rows in that state
// are left out, unless no set can have any.
func (o *Outbox) pick(s Selection, in state) (picks []pick, first error) {
	for _, set := range o.chosen(s) {
		condition, since, err := in(set.table)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if s.Destination != "" {
			condition += " and " + set.table.Taken
		}
		p := pick{set: set, state: condition, values: new(parameters)}
		if p.chosen, err = s.condition(set.table, since, p.values); err != nil {
			return nil, err
		}
		picks = append(picks, p)
	}
	if len(picks) > 0 {
		return picks, nil
	}
	return nil, first
}
