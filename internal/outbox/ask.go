package outbox

import "time"

// This file is what the engine asks of a table. There are four statements. Each is one transaction of its own, which
// locks nothing, and each has a bound in rows and in bytes, whatever the table holds.
//
//	Tail     pending rows in table order, after a cursor, with those before it that a snapshot may not have seen; or,
//	         as a sweep, without their contents
//	Due      the same for rows with available_at whose time has come, where they have an index of their own
//	Keys     the first pending rows of some keys
//	Blocked  the keys of failed rows
//
// A key is named by its hash ([Row.Hash]), a number that the statement computes from the key's text, or from the id of
// a row without a key. Two keys with the same hash are one key for the engine, in every statement and in every respect:
// they keep one order and wait together. So no statement compares a key's text, and the engine holds no text.
//
// "Pending" means that a row is neither relayed nor failed, that the view takes it, and that its time has come. Rows
// that have a read of their own for their time (ReadsDue) are left out of Tail and Keys without Due.

// A Most bounds a read. A row is taken if it and those before it have no more than Bytes, or if it is the first and has
// no more than First. If there is not even room for the first row, the page is empty and says so (Wants).
type Most struct {
	Rows         int
	Bytes, First int64
}

// A Query asks for a page of pending rows in table order: priority if there is one, order value, id.
//
// A first page has the rows after After (the cursor), and those before it of which Seen may have missed the commit:
//
//	(order, id) > After or not certain(Seen)            and order >= least(Low, After)
//
// and in each row whether it is After. If Low is nil, the bound is the very beginning. (least(null, x) is x, so the
// statement needs another bound then, or none.) Rows that Seen has seen, and that were not due at Seen.Now, are not
// certain.
//
// certain(Seen) means that the row's Writer had ended by then. If the writer is the top-level transaction
// ([Table.Exact]), it is pg_visible_in_snapshot(Writer, Seen). Otherwise it may be a savepoint's number, which no
// snapshot lists; then it is certain only if it is also below Seen.Oldest, or below the first transaction that was
// running in Seen and has ended now.
//
// If Seen is nil, all rows from After on are wanted, and with After zero all rows. A further page is the same without
// Seen.
type Query struct {
	After Position
	Seen  *Visible
	Low   *int64 // an ordinal; only where [Table.Ordinal]
	Due   bool   // rows with available_at that are due, in the order of that time; only where ReadsDue. Low is nil
	// Sweep asks for rows up to Upto inclusive (zero: to the end), without contents: no payload, no headers and no
	// extra texts. Topic and key are cut after a kilobyte. Only the number of rows bounds the page.
	Sweep  bool
	Upto   Position
	Shards []int // nil for all
	// Asks are of [Table.Keys] alone, which looks at nothing else than at these, Due and Most.
	Asks []Ask
	Most
}

// A Page is the answer to a question. Visible is that of the statement that has read the rows: it comes also when there
// are none.
type Page struct {
	Rows     []Row     // with After, Hash and Writer
	Keys     []KeyRows // instead, of [Table.Keys]: one for each ask
	Full     bool      // a limit was reached, so that there may be more rows
	Visible  Visible
	Distance time.Duration // the part of the read's time that the server did not take: the way there and back
	Next     time.Duration // with Due: until the next row's time comes; 0 if there is none
	Wants    int64         // bytes of the first row, if there was no room for it
}

// An Ask names a key.
type Ask struct {
	Hash  uint64
	Limit int    // rows
	From  *int64 // the first ordinal to read; nil for the very beginning; only where [Table.Ordinal]
}

// A KeyRows has the first pending rows of a key, in table order. A key may have more rows if its limit was reached, or
// the page's, or because one of its rows went away while it was read: then All is false. A page that is full of the
// rows of other keys has none of the last ones.
type KeyRows struct {
	Rows []Row
	All  bool
}

// What the engine asks of the statements that write:
//
// Settle marks the version of a row that was read: its place and the transaction that wrote it. A row of which there is
// another version by now is read again. If its topic, key, headers, payload and extra columns are the same, that
// version is marked (another destination has marked the row, say); otherwise it stays pending ([ErrRewritten]), and the
// engine publishes it as it is now.
