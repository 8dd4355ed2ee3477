package outbox

import (
	"encoding/binary"
	"time"
)

// Where there is an index of due times, rows with available_at have a read of their own. The reads in table order then
// leave these rows out: a million rows that are scheduled for next week cost neither kind of read anything.

// ReadsDue reports whether rows with available_at have a read of their own ([Query.Due]).
func (t *Table) ReadsDue() bool { return t.mapping.dueIndex }

func untilDue(value []byte) time.Duration {
	if value == nil {
		return 0
	}
	return time.Duration(min(int64(binary.BigEndian.Uint64(value)), longest)) * time.Microsecond
}
