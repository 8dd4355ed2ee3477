// Package outbox is the outbox table in PostgreSQL: which of its columns mean what, reading its
// pending rows in order, and writing what became of them.
package outbox

import (
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Config says where the outbox is and how its rows are understood.
type Config struct {
	Table   sql.Table
	Columns map[string]string // the relay's names of columns to the table's
	// Preferred are columns that are taken, where the table has them, for those that Columns leaves open.
	Preferred map[string]string
	Headers   map[string]string // names of headers to the columns whose text is sent as them, unless it is NULL
	Key       rowkey.Source
	Extra     []Extra // further texts that each row carries, at most [MostExtra]
	Delete    bool    // acknowledged rows are deleted instead of marked
	// BlockFailed: a failed row blocks its key, so the keys of failed rows must be found by an index.
	BlockFailed bool
	// MaxRow is how many bytes of a row are read, 0 for [DefaultMaxRow]. A row that takes more comes without them, and is [Row.Invalid].
	MaxRow int64
	// Encoded: the payload is text that stands for bytes, so its column must be of such a type.
	Encoded bool
	Channel string // that a doorbell's trigger has to notify; empty when nobody listens
	Shards  int    // into how many the rows are divided by a hash of their key, or of their id without one; at least 1
	// Looks: nothing is marked or refused, so that this role needs no right to write, and the server may be a standby.
	Looks bool
	// Views are those of the destinations, of which some may keep their state in columns of their own. Without any there is one
	// destination, which takes every row and keeps its state in the columns of the table.
	Views []View
}

// views are those of the destinations, one at least.
func (c *Config) views() []View {
	if len(c.Views) == 0 {
		return []View{{}}
	}
	return c.Views
}

// headerPrefix begins our name of a column that is sent as a header.
const headerPrefix = "header."

// HeaderColumns returns, of names of columns, those that are sent as headers: names of headers to columns.
func HeaderColumns(columns map[string]string) map[string]string {
	headers := map[string]string{}
	for ours, theirs := range columns {
		if name, is := strings.CutPrefix(ours, headerPrefix); is {
			headers[name] = theirs
		}
	}
	return headers
}

// DefaultMaxRow is [Config.MaxRow] where it is not given.
const DefaultMaxRow = 64 << 20

// An Extra is a text of a row beside its message, for templates and the like. It may be NULL.
type Extra struct {
	Kind ExtraKind
	Name string // the column, the header, or the path in the payload with dots between its parts
}

// An ExtraKind says where the text comes from.
type ExtraKind uint8

const (
	ExtraColumn  ExtraKind = iota
	ExtraHeader            // of the row's headers, or else the column that is sent as this header
	ExtraPayload           // of a JSON payload
	ExtraTime              // the time in a column, in milliseconds since 1970
)

// MostExtra is how many further texts a row carries at most.
const MostExtra = 64

// OIDs of the types that the relay understands, from PostgreSQL's pg_type.dat.
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidTID         = 27
	oidJSON        = 114
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidInterval    = 1186
	oidUUID        = 2950
	oidJSONB       = 3802
	oidXID8        = 5069
	oidXML         = 142
)

// epoch is PostgreSQL's day zero; its binary times count microseconds from it.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
