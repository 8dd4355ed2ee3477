package outbox

import (
	"context"
	"slices"
	"strconv"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
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

// ExamineDedupIDs warns if a broker that drops duplicates may recognise two of the table's rows, or rows of two tables,
// by the same id. prefix is the destination's own, if it has one.
func (t *Table) ExamineDedupIDs(prefix string, names setting.Names) (f finding.List) {
	if timed := t.mapping.Inserted.Has(); t.prefix == "" || timed && t.relation.cluster+prefix != "" {
		return nil
	}
	f.Warn("message_id", "Nats-Msg-Id", "it is made of the row's id, without the database server's system identifier "+
		"or the time of insert: streams drop rows of another server with the same numbers and tables, and new rows "+
		"with the ids of old ones after truncate … restart identity or the restore of a backup, as duplicates",
		"add a column inserted_at (timestamptz not null default now()) if there is none, and grant execute on "+
			"function pg_control_system() to the role, or set "+names.Of("DedupPrefix")+" to a name that no other "+
			"service has, and to another one whenever ids begin again")
	return f
}
