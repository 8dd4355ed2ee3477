package sql

import (
	"fmt"
	"strings"
)

// Own says what a destination needs of a table if it keeps its state in columns of its own. All names are the table's.
type Own struct {
	Table       Table
	Destination string
	Columns     []OwnColumn // relayed_at first
	Pending     string      // the condition for its pending rows
	Order       []string    // the column that gives the table its order: the first of these that exists
	ID          string
	Priority    string // a column whose larger values come first, if there is one
	Txid        string

	// For a destination that takes the failed or relayed rows of another one: the other destination's name, its column
	// with the time of that event, and whether the event is the failure.
	Origin, OriginAt string
	OriginFailed     bool
}

// An OwnColumn is the relay's name of a column and the table's.
type OwnColumn struct{ Ours, Theirs string }

// ownTypes are the types of a destination's own columns other than relayed_at.
var ownTypes = map[string]string{
	"attempt": "integer not null default 1", "failed_at": "timestamptz", "last_error": "text",
	"updated_at": "timestamptz",
}

// Destination returns the DDL of a destination's own columns and indexes. It may be applied repeatedly.
func Destination(o Own) string {
	table, relayed := o.Table.Quoted(), Quote(o.Columns[0].Theirs)
	oid := strings.TrimSpace(Literal(table)) + "::regclass"
	names := map[string]string{
		"name": o.Destination, "table": table, "oid": oid, "relayed": relayed, "txid": Quote(o.Txid),
		"relayed_name": strings.TrimSpace(Literal(o.Columns[0].Theirs)),
	}
	// Rows that count as done were never sent. Their time says so to verify and status, prune waits for nothing, and
	// every client can read it, which cannot be said of -infinity.
	const never = "'epoch'"
	const done = " default " + never
	drop := fmt.Sprintf("alter table %s alter column %s drop default;", table, relayed)
	which, where, how := "Rows that exist", "...", ", in small parts"
	names["default"], names["rows"] = done, drop
	switch {
	case o.OriginFailed:
		which, where, how = "Rows that have failed at "+o.Origin+" already", Quote(o.OriginAt)+" is not null", ""
		names["default"] = ""
		names["rows"] = fmt.Sprintf("update %s set %s = %s where %s;", table, relayed, never, where)
	case o.Origin != "":
		which = "Rows that " + o.Origin + " has relayed already"
		names["rows"] += fmt.Sprintf("\n    update %s set %s = null where %s is null;", table, relayed, Quote(o.OriginAt))
	}
	names["existing"] = fmt.Sprintf("-- %s count as done. To include some, empty the column for them afterwards%s:\n--   "+
		"update %s set %s = null where %s;", which, how, table, relayed, where)
	names["columns"], names["pending_index"] = o.columns(), o.indexes()
	return script("destination.sql", names)
}

// columns returns the statements for the other columns, and for the comments that record whose columns they are.
func (o *Own) columns() string {
	table := o.Table.Quoted()
	var text strings.Builder
	for _, c := range o.Columns[1:] {
		fmt.Fprintf(&text, "alter table %s add column if not exists %s %s;\n", table, Quote(c.Theirs), ownTypes[c.Ours])
	}
	for _, c := range o.Columns {
		fmt.Fprintf(&text, "comment on column %s.%s is %s;\n", table, Quote(c.Theirs),
			strings.TrimSpace(Literal(ownComment(o.Destination, c.Ours))))
	}
	return text.String()
}

// ownCommentStart is the prefix of the comment on a destination's own column.
const ownCommentStart = "outbox-relay destination "

// ownComment returns the comment on a destination's own column. The comment remains after the destination is removed
// from the configuration.
func ownComment(destination, ours string) string { return ownCommentStart + destination + ": " + ours }

// ParseOwnComment returns the destination that owns the column with this comment, and the relay's name of the column;
// ok is false for any other comment.
func ParseOwnComment(comment string) (destination, ours string, ok bool) {
	rest, ok := strings.CutPrefix(comment, ownCommentStart)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ": ")
}

// indexes returns the statements for the index of pending rows, and for the index of failed rows if there can be any.
func (o *Own) indexes() string {
	table, failed := o.Table.Quoted(), ""
	for _, c := range o.Columns {
		if c.Ours == "failed_at" {
			failed = Quote(c.Theirs)
		}
	}
	index := func(what string) string { return Quote(indexName(o.Table, "_"+o.Destination+"_"+what+"_idx")) }
	var text string
	if o.Origin != "" {
		text = fmt.Sprintf("create index if not exists %s on %s (%s, %s)\n  where %s;\n", index("pending"), table,
			Quote(o.OriginAt), Quote(o.ID), o.Pending)
	} else {
		text = script("destination_index.sql", map[string]string{
			"oid": literals(table) + "::regclass", "order": literals(o.Order...),
			"priority": literals(o.Priority), "id": literals(o.ID),
			"create": literals("create index if not exists " + index("pending") + " on " + table + " ("),
			"where":  literals(") where " + o.Pending),
		})
	}
	if failed != "" {
		text += "\n-- For counting and listing the rows that have failed there.\n"
		text += fmt.Sprintf("create index if not exists %s on %s (%s, %s)\n  where %s is not null;\n",
			index("failed"), table, failed, Quote(o.ID), failed)
	}
	return text
}

// literals returns string constants separated by commas.
func literals(texts ...string) string {
	constants := make([]string, len(texts))
	for i, text := range texts {
		constants[i] = strings.TrimSpace(Literal(text))
	}
	return strings.Join(constants, ", ")
}
