package outbox

import (
	"context"
	"slices"
	"strconv"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// readCluster reads the system identifier, which initdb draws, and which standbys and physical copies share. A server
// that does not report it, because the right was revoked or the function is missing, has none.
func (r *relation) readCluster(ctx context.Context, by *Table) error {
	rows, err := by.query(ctx, limits{once: true}, sql.Text("catalogue_cluster.sql", nil))
	if err == nil {
		r.cluster = string(rows[0][0])
	} else if code := server(err).Code; code != "" && !passing(code) {
		return nil
	}
	return err
}

// passing reports whether a server's error says nothing about the next attempt. After such an error the identity must
// not be taken as lacking a part, or two replicas would give one row two ids. The error classes are those of
// PostgreSQL's manual, appendix A: connection, transaction rollback, resources, operator intervention.
func passing(code string) bool {
	return len(code) == 5 && slices.Contains([]string{"08", "25", "40", "53", "57"}, code[:2])
}

// origin names the database uniquely: SYSTEM.DATABASE. The first part may be missing.
func (r *relation) origin() string {
	if r.cluster == "" {
		return r.Database
	}
	return r.cluster + "." + r.Database
}

// dedupID returns the id by which a broker recognises duplicates of a row. A uuid serves unchanged. Other ids are
// numbered alike in every database, and again from 1 in a table that was emptied; the identity and the time of insert
// distinguish them.
func (t *Table) dedupID(message *publisher.Message, a *arena) string {
	if t.prefix == "" {
		return message.ID
	}
	const digits = 20
	a.grow(len(t.prefix) + len(message.ID) + len("@") + digits)
	start := len(a.chunk)
	a.chunk = append(append(a.chunk, t.prefix...), message.ID...)
	if !message.Inserted.IsZero() {
		a.chunk = strconv.AppendInt(append(a.chunk, '@'), message.Inserted.UnixMicro(), 10)
	}
	return asString(a.chunk[start:len(a.chunk):len(a.chunk)])
}

// An IDForm says how a message's dedup id is made.
type IDForm struct {
	UUID    bool // the dedup id is the row's id
	Cluster bool // the dedup id names the server, not just the database's number there
	Timed   bool // the dedup id holds the time of insert, for rows that have one
	Example string
}

// IDForm reports how the dedup ids of the table's rows are made.
func (t *Table) IDForm() IDForm {
	f := IDForm{t.prefix == "", t.relation.cluster != "", t.mapping.Inserted.Has(), t.prefix + "1"}
	if f.Timed {
		f.Example += "@1767225600000000"
	}
	return f
}
