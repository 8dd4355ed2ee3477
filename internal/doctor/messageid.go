package doctor

import (
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// messageIDs reports by which ids a broker that drops duplicates recognises the table's rows, and when two rows could have the
// same id. prefix is the destination's own, if it has one.
func messageIDs(form outbox.IDForm, prefix string, names setting.Names) []finding.Finding {
	const check = "message_id"
	if form.UUID {
		return []finding.Finding{ok(check, "Nats-Msg-Id", "it is the row's id, a uuid: rows are distinguished as long as no other table whose "+
			"rows go to the same stream has the same ids")}
	}
	example := form.Example
	if prefix != "" {
		_, rest, _ := strings.Cut(example, "/")
		example = prefix + "/" + rest
	}
	var found []finding.Finding
	if !form.Cluster && prefix == "" {
		found = append(found, warning(check, "Nats-Msg-Id", "let the role read it (grant execute on function pg_control_system()), or set "+
			names.Of("DedupPrefix")+" to a name that no other service has",
			"it is of the form %s and does not name the database server, whose system identifier this role may not read: if another server has "+
				"the same numbers and tables, streams that both use drop rows as duplicates", example))
	}
	if !form.Timed {
		found = append(found, warning(check, "Nats-Msg-Id", "add a column inserted_at (timestamptz not null default now()), or change "+
			names.Of("DedupPrefix")+" whenever ids begin again",
			"it is of the form %s, without the time of insert, since the table has no inserted_at: after truncate … restart identity or the "+
				"restore of a backup, new rows have the ids of old ones, and streams drop them as duplicates within their window", example))
	}
	if found == nil {
		found = append(found, ok(check, "Nats-Msg-Id", "it is of the form %s, which no other row has", example))
	}
	return found
}
