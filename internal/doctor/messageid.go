package doctor

import (
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// messageIDs reports by which ids a broker that drops duplicates recognises the table's rows, and when two rows could
// have the same id. prefix is the destination's own, if it has one.
func messageIDs(form outbox.IDForm, prefix string, names setting.Names) (f finding.List) {
	const check, subject = "message_id", "Nats-Msg-Id"
	if form.UUID {
		f.Well(check, subject, "it is the row's id, a uuid, which no row of another table in the stream may have")
		return f
	}
	example := form.Example
	if prefix != "" {
		_, rest, _ := strings.Cut(example, "/")
		example = prefix + "/" + rest
	}
	is := "it is of the form " + example
	f.Add(check, subject, finding.WarnIf(!form.Cluster && prefix == "", is+" and does not name the database server, "+
		"whose system identifier this role may not read: streams drop rows of another server with the same numbers "+
		"and tables as duplicates", "grant execute on function pg_control_system() to it, or set "+
		names.Of("DedupPrefix")+" to a name that no other service has"))
	f.Add(check, subject, finding.WarnIf(!form.Timed, is+", without the time of insert, since the table has no "+
		"inserted_at: after truncate … restart identity or the restore of a backup, streams drop new rows with the "+
		"ids of old ones as duplicates", "add a column inserted_at (timestamptz not null default now()), or change "+
		names.Of("DedupPrefix")+" whenever ids begin again"))
	f.Add(check, subject, finding.OKIf(f == nil, is+", which no other row has"))
	return f
}
