package outbox

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Config says where the outbox is and how its rows are understood.
type Config struct {
	Table sql.Table
	// Columns are the relay's column names to the table's. A name that begins with "header." is that of a column whose
	// text is sent as a header, unless it is NULL.
	Columns map[string]string
	// Preferred are columns that are used, if the table has them, for the names that Columns does not map.
	Preferred map[string]string
	Key       rowkey.Source
	// Extra are additional texts that each row carries, for templates and the like, at most [MostExtra]. A text may be
	// NULL. A header is the column that is sent as this header, or else one of the row's own.
	Extra  []rowkey.Source
	Delete bool // accepted rows are deleted instead of marked
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

// sentAs begins the relay's name for a column that is sent as a header.
const sentAs = "header."

// DefaultMaxRow is the value of [Config.MaxRow] if it is 0.
const DefaultMaxRow = 64 << 20

// MostExtra is the largest number of additional texts that a row carries.
const MostExtra = 64

// epoch is PostgreSQL's day zero; its binary times count microseconds from it.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
