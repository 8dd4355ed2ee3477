package sql

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Schema returns the DDL of the recommended table and its indexes, as a script for the user to apply.
func Schema(table Table) string { return SchemaNamed(table, nil) }

// SchemaNamed is Schema with other names for some columns, by the relay's names of them.
func SchemaNamed(table Table, columns map[string]string) string {
	return Script("schema.sql", scriptNames(table, columns))
}

// scriptNames returns the names of the recommended table, its columns and its indexes for its scripts. A name that two
// columns would have stays with the first. Columns that the recommended table lacks are added if they have a name,
// since a relay that is configured with it requires them.
func scriptNames(table Table, columns map[string]string) map[string]string {
	names := map[string]string{"order": "seq", "table": table.Quoted()}
	for _, index := range []string{"pending", "key", "failed", "inserted"} {
		names[index+"_index"] = Quote(IndexName(table, "_"+index+"_idx"))
	}
	used := map[string]bool{}
	for _, ours := range []string{
		"id", "seq", "topic", "key", "payload", "headers", "attempt", "relayed_at", "failed_at", "last_error",
		"inserted_at", "updated_at", "txid",
	} {
		names[ours] = ours
		used[ours] = columns[ours] == "" && (ours != "seq" || columns["order"] == "")
	}
	var added strings.Builder
	for _, ours := range slices.Sorted(maps.Keys(columns)) {
		theirs, column := columns[ours], ours
		if ours == "order" {
			names["order"], column = Quote(theirs), "seq"
		}
		switch {
		case used[theirs]:
		case names[column] != "":
			names[column] = Quote(theirs)
		default:
			types := map[string]string{"available_at": "timestamptz", "priority": "integer"}
			fmt.Fprintf(&added, "  %s %s,\n", Quote(theirs), cmp.Or(types[ours], "text")) // text for a header
		}
		used[theirs] = true
	}
	names["added"], names["rank"] = added.String(), rank(columns["priority"])
	return names
}

// rank returns what an index that gives larger priorities first begins with, empty if there is no priority.
func rank(priority string) string {
	if priority == "" {
		return ""
	}
	return "(~coalesce(" + Quote(priority) + ", 0)::bigint), "
}

// DoorbellClass is the first half of the advisory lock that a sleeping relay holds for the doorbell trigger; the
// table's oid is the second half. It replaces {class} in the statements.
const DoorbellClass = "1483078091"

// Doorbell returns the DDL of the trigger that wakes a sleeping relay through LISTEN on a channel. It may be applied
// repeatedly, also to change the channel.
func Doorbell(table Table, channel string) string {
	return Script("doorbell.sql", map[string]string{
		"table":    table.Quoted(),
		"function": Table{Schema: table.Schema, Name: "outbox_relay_doorbell"}.Quoted(),
		"class":    DoorbellClass,
		"channel":  Literal(channel),
	})
}

// Rights says what a role needs on an outbox table.
type Rights struct {
	Table   Table // the schema public is assumed if it has none
	Role    string
	Purpose string   // the role's purpose, a heading of the script
	Updates []string // the table's names of the columns that the role writes, at least one
	Delete  bool     // the role deletes rows
	Txid    string   // the table's name of the column txid, if the role writes it where it exists
}

// Grants returns the minimal rights of a role for its purpose, as a script for the owner of the table. A table without
// a schema is taken to be in public.
func Grants(r Rights) string {
	if r.Table.Schema == "" {
		r.Table.Schema = "public"
	}
	columns := make([]string, len(r.Updates))
	for i, column := range r.Updates {
		columns[i] = Quote(column)
	}
	names := map[string]string{
		"purpose": r.Purpose, "schema": Quote(r.Table.Schema), "table": r.Table.Quoted(), "role": Quote(r.Role),
		"columns": strings.Join(columns, ", "),
	}
	text := Script("grants.sql", names)
	if r.Txid != "" {
		names["relation"], names["column"], names["name"] = Literal(r.Table.Quoted()), Quote(r.Txid), Literal(r.Txid)
		text += Script("grants_txid.sql", names)
	}
	if r.Delete {
		text += "grant delete on " + names["table"] + " to " + names["role"] + ";\n"
	}
	return text
}

// IndexName returns a name that PostgreSQL does not truncate. Truncation could make the names of two indexes equal.
func IndexName(table Table, suffix string) string {
	const longest = 63
	name := table.Name
	for len(name) > longest-len(suffix) {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + suffix
}
