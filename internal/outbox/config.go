package outbox

import (
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Config says where the outbox is and how its rows are understood.
type Config struct {
	Table   sql.Table
	Columns map[string]string // the relay's column names to the table's
	// Preferred are columns that are used, if the table has them, for the names that Columns does not map.
	Preferred map[string]string
	Headers   map[string]string // header names to the columns whose text is sent in them, unless it is NULL
	Key       rowkey.Source
	Extra     []Extra // additional texts that each row carries, at most [MostExtra]
	Delete    bool    // accepted rows are deleted instead of marked
	// MaxRow is how many bytes of a row are read, 0 for [DefaultMaxRow]. A larger row comes without its values and is
	// [Row.Invalid].
	MaxRow  int64
	Channel string // the channel that a doorbell's trigger has to notify; empty when nothing listens
	// Shards is the number of parts into which rows are divided by a hash of their key, or of their id if they have no
	// key; at least 1.
	Shards int
	// Looks says that nothing is marked or refused. The role then needs no right to write, and the server may be a
	// standby.
	Looks bool
	// Views are the destinations' views; some may keep their state in columns of their own. Without views there is one
	// destination, which takes every row and keeps its state in the columns of the table.
	Views []View
	// Names are the user's names of the relay's configuration fields, for errors and findings.
	Names setting.Names
}

// views returns the destinations' views, at least one.
func (c *Config) views() []View {
	if len(c.Views) == 0 {
		return []View{{}}
	}
	return c.Views
}

// headerPrefix is the prefix of the relay's name for a column that is sent as a header.
const headerPrefix = "header."

// HeaderColumns returns the columns that are sent as headers: header names to column names.
func HeaderColumns(columns map[string]string) map[string]string {
	headers := map[string]string{}
	for ours, theirs := range columns {
		if name, is := strings.CutPrefix(ours, headerPrefix); is {
			headers[name] = theirs
		}
	}
	return headers
}

// DefaultMaxRow is the value of [Config.MaxRow] if it is 0.
const DefaultMaxRow = 64 << 20

// An Extra is a text that a row carries in addition to its message, for templates and the like. The text may be NULL.
type Extra struct {
	Kind ExtraKind
	Name string // the column, the header, or the dot-separated path in the payload
}

// An ExtraKind says where the text comes from.
type ExtraKind uint8

const (
	ExtraColumn  ExtraKind = iota
	ExtraHeader            // a header of the row, or else the column that is sent as this header
	ExtraPayload           // a field of a JSON payload
	ExtraTime              // the time in a column, in milliseconds since 1970
)

// MostExtra is the largest number of additional texts that a row carries.
const MostExtra = 64

// epoch is PostgreSQL's day zero; its binary times count microseconds from it.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
