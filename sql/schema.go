package sql

import (
	"strings"
	"unicode/utf8"
)

// Schema returns the DDL of the recommended table and its indexes, as a script for the user to apply.
func Schema(table Table) string {
	return script("schema.sql", map[string]string{
		"table":         table.Quoted(),
		"pending_index": Quote(indexName(table, "_pending_idx")),
		"failed_index":  Quote(indexName(table, "_failed_idx")),
	})
}

// DoorbellClass is the first half of the advisory lock that a sleeping relay holds for the doorbell trigger; the table's oid is
// the second. It stands for {class} in the statements.
const DoorbellClass = "1483078091"

// Doorbell returns the DDL of the trigger that wakes a sleeping relay through LISTEN on a channel. It
// may be applied again, also to change the channel.
func Doorbell(table Table, channel string) string {
	return script("doorbell.sql", map[string]string{
		"table":    table.Quoted(),
		"function": Table{Schema: table.Schema, Name: "outbox_relay_doorbell"}.Quoted(),
		"class":    DoorbellClass,
		"oid":      strings.TrimSpace(Literal(table.Quoted())) + "::regclass::integer",
		"channel":  strings.TrimSpace(Literal(channel)),
	})
}

// Rights says what a role needs on an outbox table.
type Rights struct {
	Table   Table // the schema public is assumed when it has none
	Role    string
	Updates []string // the table's names of the columns that the relay writes
	Delete  bool     // acknowledged rows are deleted
}

// Grants returns the least that a role needs to relay, as a script for the owner of the table.
func Grants(r Rights) string {
	note := ""
	if r.Table.Schema == "" {
		r.Table.Schema = "public"
		note = "-- OUTBOX_TABLE names no schema, so this says public; set it to schema.table if that is wrong.\n"
	}
	columns := make([]string, len(r.Updates))
	for i, column := range r.Updates {
		columns[i] = Quote(column)
	}
	names := map[string]string{
		"schema":  Quote(r.Table.Schema),
		"table":   r.Table.Quoted(),
		"role":    Quote(r.Role),
		"columns": strings.Join(columns, ", "),
	}
	text := note + script("grants.sql", names)
	if r.Delete {
		text += "grant delete on " + names["table"] + " to " + names["role"] + ";\n"
	}
	return text
}

// script is Text for what a person reads and applies: the comments stay, and braces that are no
// placeholder, such as those of JSON.
func script(file string, names map[string]string) string {
	text, err := files.ReadFile(file)
	if err != nil {
		panic(err) // the file is compiled in
	}
	var pairs []string
	for name, value := range names {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(string(text))
}

// indexName returns a name that PostgreSQL does not cut, which would make the names of two indexes
// equal.
func indexName(table Table, suffix string) string {
	const longest = 63
	name := table.Name
	for len(name) > longest-len(suffix) {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name + suffix
}
