package route

import (
	"strconv"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// A Time takes the time of a message from a column of its row.
type Time struct{ extra int }

// TimeFrom returns the time in a column. The column is added to extra.
func TimeFrom(column string, extra *Extra) *Time {
	return &Time{extra.add(rowkey.Source{Kind: rowkey.Time, Name: column})}
}

// Of returns the row's time; zero if the column is NULL or infinite.
func (t *Time) Of(row *outbox.Row) time.Time {
	if t == nil || t.extra >= len(row.Extra) || row.Nulls&(1<<t.extra) != 0 {
		return time.Time{}
	}
	at, err := strconv.ParseInt(row.Extra[t.extra], 10, 64)
	if err != nil { // for a row that was not read whole
		return time.Time{}
	}
	return time.UnixMilli(at)
}
