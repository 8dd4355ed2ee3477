// Package outbox is the outbox table in PostgreSQL: the meaning of its columns, reading its pending rows in order, and
// writing what became of them.
//
// # How a table is understood
//
// [Open] reads the catalogue into a relation: columns, indexes, partitions and the doorbell's trigger. A mapping says
// which [Column] plays which role. What all destinations share is found once; each destination ([View]) adds which rows
// it takes (a condition on topics), which columns hold what became of them, and which reads an index makes cheap.
// Statements are rendered once from a mapping, when a table is opened or seen as a destination ([Table.For]): the texts
// are in sql/*.sql, with {names} in place of identifiers and expressions, and all names are made by [Table.describe]
// and what it calls, for commands too ([Table.Text]). [Examine] reports what a mapping lacks.
//
// Nothing about a table is remembered elsewhere. If a migration changes it, [Table.Current] says so, and the caller
// opens it again.
//
// # Reading
//
// ask.go lists the statements of the engine and what each promises. All of them have a bound in rows and bytes, lock
// nothing and are transactions of their own; so a read never keeps vacuum from anything for longer than the read lasts.
// They follow an index of pending rows in its order: with statistics that were gathered while few rows were pending,
// PostgreSQL would otherwise sort the whole backlog for each page, which took 100 times as long at 150,000 rows. So the
// planner is told to use an index's order (limits.sql), and, where only one plan is right, to plan once per connection:
// planning is three quarters of what an idle poll costs.
//
// Payloads up to 16 to 64 KiB come with their page. Of larger rows a page holds the size, and they are read afterwards,
// as many as there is room for. A row that the server cannot give out fails alone.
//
// # Writing
//
// A mark names the version of a row that was read: its place (ctid) and the transaction that wrote it (xmin). So
// nothing is marked that no broker has, and marking takes no index. If somebody has written to the row since, it is
// read again: with the same content it is marked, otherwise it stays pending and is published as it is now. No
// statement waits for another session's lock for longer than half of deadlock_timeout, so that the relay is never the
// reason for which the server ends an application's transaction.
//
// Before anything is published, the server is asked to plan a read and the writes as this role: missing rights, a
// missing replica identity or a generated column show there, instead of after the first message.
package outbox
