package outbox

import (
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

const checkIndex = "index"

// byKey reports the cost if there is no index of the pending rows by key, and the statement that creates it.
func (e *examination) byKey() {
	m := e.mapping
	const cost = "while rows are refused, or a topic is missing, each round of retries passes over all pending rows"
	create := e.createPending(m.keyHash()+", "+m.rankFirst()+m.Order.Name, pattern.Always)
	e.add(checkIndex,
		finding.OKIf(m.keyIndex, "pending rows of a key are found by an index"),
		finding.WarnIf(m.keyVaries, "no index of pending rows by key is possible, since the text of the key's type "+
			"depends on settings: "+cost, "keep the key in a column of type text, or in jsonb in place of json"),
		// A row that waits and has no key keeps no others back.
		finding.OKIf(m.Key == noKey, "no index of pending rows by what stands for their key: "+cost+": "+create),
		finding.WarnIf(true, "no index of pending rows by key: "+cost, create))
}

// byState reports the cost if there is no index of the pending or of the failed rows, or none that fits.
func (e *examination) byState() {
	m, available := e.mapping, e.mapping.Available
	order, untimed, timed := m.position().columns(), available.Name+" is null", available.Name+" is not null"
	create := e.createPending(order, pattern.Always)
	if m.dueIndex {
		create = e.createPending(order, untimed)
	}
	const left = "pending_rows and oldest_pending_age_seconds are left out"
	e.add(checkIndex,
		finding.WarnIf(m.Rank.Has() && !m.followed,
			"no index of pending rows by priority: each poll reads and sorts all that is pending", create),
		finding.WarnIf(!m.followed, "no index of pending rows in their order: each poll reads the table, so polls are "+
			"made less often, and "+left, create),
		finding.WarnIf(e.view.Columns != nil && !m.filtered, "the index of pending rows also holds those that the "+
			"destination never takes: each read steps over all of them, and "+left, create),
		finding.WarnIf(!m.Rank.Has() && m.relayedFirst && m.failedToo,
			"the index of pending rows holds failed ones too: each poll steps over all of them", create),
		finding.OKIf(true, "pending rows are read in order from an index"))
	e.add(checkIndex,
		finding.WarnIf(m.Failed.Has() && !m.failedIndex, "no index of failed rows: the gauge failed_rows is left out, "+
			"and looking for failed rows reads the table", e.CreateFailedIndex()),
		finding.OKIf(m.Failed.Has(), "failed rows are read in order from an index"))
	if !available.Has() {
		return
	}
	name, quoted := available.Plain, available.Name
	e.add(checkIndex,
		finding.WarnIf(!m.dueIndex, "no index of due times: rows with "+name+" are looked for among all that are "+
			"scheduled, and relayed the later the more there are", e.createPending(quoted+", "+order, timed)),
		finding.OKIf(!available.NotNull, "rows with "+name+" are read by that time, from an index; they keep no order"),
		finding.WarnIf(true, name+" is never null: every row is read by that time, and rows of one key keep no order",
			"let "+name+" be null in rows that are to be relayed at once and in order: alter table "+e.Quoted()+
				" alter "+quoted+" drop not null, alter "+quoted+" drop default;"))
	e.add(checkIndex, finding.WarnIf(!available.NotNull && !m.undelayed, "no index of the pending rows without "+name+
		" in their order: reads of these step over every row that is scheduled for later",
		e.createPending(order, untimed)))
}

// ids reports the consequences if two rows may have the same id, and the cost if there is no index by id.
func (e *examination) ids() {
	id, apart, without := e.mapping.ID, len(e.mapping.beside) > 0, "each write of the relay"
	if apart {
		without = "each try of a row that has no key and was refused or held"
	}
	text := "no unique index holds " + id.Plain + " alone, so two rows may have one id: one of their messages may be " +
		"dropped as a duplicate, and a row that is changed while it is relayed is published again"
	remedy := "create unique index concurrently on " + e.Quoted() + " (" + id.Name + ");"
	if !id.NotNull {
		remedy = "alter table " + e.Quoted() + " alter " + id.Name + " set not null; " + remedy
	}
	e.add("id",
		finding.WarnIf(apart && (e.relation.Children || e.relation.partitioned()), text,
			"let every writer draw ids that are used once in all these tables, uuids for example"),
		finding.WarnIf(apart, text, remedy))
	e.add(checkIndex, finding.WarnIf(!e.mapping.IDIndexed,
		"no index by "+id.Plain+": "+without+" reads the whole table", e.CreateIndex(id.Name, pattern.Always)))
}

// createPending returns the statement that creates an index of pending rows that meet a further condition.
func (e *examination) createPending(columns, also string) string {
	return e.CreateIndex(columns, pattern.And(pattern.And(e.mapping.Pending, e.mapping.Taken), also))
}
