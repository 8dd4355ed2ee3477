package outbox

import (
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// refuses reports whether a row is larger than the limit for all rows, and if so makes it invalid.
func (t *Table) refuses(row *Row) bool {
	if row.size <= t.maxRow {
		return false
	}
	row.refuse(publisher.PermanentError("row too large",
		"the row takes at least %d bytes, and %s is %d, or the topic, the key, a header's column or a value that a "+
			"template names has %d or more: raise the limit, or store the data elsewhere and send its location",
		row.size, t.config.Names.Of("MaxRowBytes"), t.maxRow, maxText))
	return true
}

// refuse makes a row invalid and drops its size, so that its contents are not read.
func (r *Row) refuse(err error) {
	r.Invalid, r.size = err, 0
	r.Message.Payload, r.Message.Headers = nil, nil
}

// unreadable reports whether an error is due to a single row that cannot be read: its text takes more than a gigabyte,
// say, or its stored data is damaged.
func unreadable(err error) bool {
	const limitExceeded, outOfMemory, internalError = "54", "53200", "XX"
	code := server(err).Code
	return strings.HasPrefix(code, limitExceeded) || code == outOfMemory || strings.HasPrefix(code, internalError)
}
