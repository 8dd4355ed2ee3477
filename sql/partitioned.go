package sql

import (
	"maps"
	"strings"
)

// Partitioned returns the DDL of the recommended table with a partition for each day, and of the functions that create
// and drop partitions, as a script for the user to apply. columns are other names for some columns, by the relay's
// names of them. undone is the condition for rows that keep a partition; $1 in it is the cutoff, and $2 says whether
// failed rows count as done. own are the columns with relayed_at of destinations that it knows besides the table's.
func Partitioned(table Table, columns map[string]string, undone string, own ...string) string {
	names := scriptNames(table, columns)
	inFormat := strings.NewReplacer("'", "''", "%", "%%").Replace // in a format within a string
	names["inserted_at_format"] = inFormat(names["inserted_at"])
	maps.Copy(names, map[string]string{
		"table_literal": Literal(table.Quoted()),
		"default":       part(table, "_default").Quoted(),
		"make":          part(table, "_make_partitions").Quoted(),
		"make_of":       part(table, "_make_partitions_of").Quoted(),
		"drop":          part(table, "_drop_partition").Quoted(),
		"drop_of":       part(table, "_drop_partition_of").Quoted(),
		"name_literal":  Literal(part(table, "_p20000101").Name[:len(part(table, "_p20000101").Name)-len("20000101")]),
		"undone":        inFormat(undone),
		"known":         Literals(own),
		"state":         Literal(OwnComment("%", "relayed_at")),
	})
	return Script("partitioned.sql", names)
}

// part returns the name of an object that belongs to a table.
func part(table Table, suffix string) Table {
	return Table{Schema: table.Schema, Name: IndexName(table, suffix)}
}
