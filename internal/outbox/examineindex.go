package outbox

import (
	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

const checkIndex = "index"

// indexes reports the cost of each missing index, and the statement that creates it.
func (e *examination) indexes() {
	m := e.mapping
	own := e.view.Columns != nil
	if !own {
		e.pendingIndex()
	}
	e.unique()
	without := "each write of the relay"
	if m.apart {
		without = "each try of a row that has no key and was refused or held"
	}
	e.add(checkIndex, finding.WarnIf(!m.IDIndexed, "no index by "+m.ID.Plain+": "+without+" reads the whole table",
		e.createIndex(m.ID.Name, "")))
	if !own {
		e.failedIndex()
		e.byKey()
	}
}

// byKey reports what it costs that there is no index of the pending rows by key.
func (e *examination) byKey() {
	m := e.mapping
	const cost = "while rows are refused, or a topic is missing, each round of retries passes over all pending rows"
	columns := m.keyHash()
	if m.Rank.Has() {
		columns += ", " + rank(m)
	}
	create := e.createIndex(columns+", "+m.Order.Name, e.where())
	e.add(checkIndex,
		finding.OKIf(m.keyIndex, "pending rows of a key are found by an index"),
		finding.WarnIf(m.keyVaries, "no index of pending rows by key is possible, since the text of the key's type "+
			"depends on settings: "+cost, "keep the key in a column of type text, or in jsonb in place of json"),
		// A row that waits and has no key keeps no others back.
		finding.OKIf(m.Key == noKey, "no index of pending rows by what stands for their key: "+cost+": "+create),
		finding.WarnIf(true, "no index of pending rows by key: "+cost, create))
}

// where is the condition for an index of pending rows, with others. It is empty if all rows are pending.
func (e *examination) where(more ...string) string {
	where := e.mapping.pending()
	for _, condition := range append([]string{e.mapping.Taken}, more...) {
		where = pattern.And(where, condition)
	}
	if where == pattern.Always {
		return ""
	}
	return where
}

// pendingIndex reports the cost if there is no index of the pending rows, or none that fits.
func (e *examination) pendingIndex() {
	m := e.mapping
	order := m.placeOrdering()
	if m.Rank.Has() {
		order = rank(m) + ", " + order
	}
	where := e.where()
	if m.dueIndex {
		where = e.where(m.Available.Name + " is null")
	}
	create := e.createIndex(order, where)
	e.add(checkIndex,
		finding.WarnIf(m.Rank.Has() && !m.rankIndex,
			"no index of pending rows by priority: each poll reads and sorts all that is pending", create),
		finding.WarnIf(!m.Rank.Has() && !m.orderIndex, "no index of pending rows in their order: each poll reads the "+
			"table, so polls are made less often, and pending_rows and oldest_pending_age_seconds are left out",
			create),
		finding.WarnIf(e.view.Columns != nil && !m.filtered, "the index of pending rows also holds those that the "+
			"destination never takes, for ever: each read steps over all of them, and pending_rows and "+
			"oldest_pending_age_seconds are left out", create),
		finding.WarnIf(!m.Rank.Has() && m.relayedFirst && m.failedToo, "the index of pending rows holds failed ones "+
			"too: while many rows have failed, each poll steps over all of them", create),
		finding.OKIf(true, "pending rows are read in order from an index"))
	if !m.Available.Has() {
		return
	}
	name, quoted := m.Available.Plain, m.Available.Name
	e.add(checkIndex,
		finding.WarnIf(!m.dueIndex, "no index of due times: rows with "+name+" are looked for among all that are "+
			"scheduled for later, and relayed half a second late, or many seconds while hundreds of thousands are",
			e.createIndex(quoted+", "+order, e.where(quoted+" is not null"))),
		finding.OKIf(!m.Available.NotNull, "rows with "+name+" are read by that time, from an index; they keep no "+
			"order"),
		finding.WarnIf(true, name+" is never null: every row is read by that time, and rows of one key keep no order",
			"let "+name+" be null in rows that are to be relayed at once and in order: alter table "+e.quoted+" alter "+
				quoted+" drop not null, alter "+quoted+" drop default;"))
	e.add(checkIndex, finding.WarnIf(!m.Available.NotNull && !m.undelayed, "no index of the pending rows without "+name+
		" in their order: reads of these step over every row that is scheduled for later",
		e.createIndex(order, e.where(quoted+" is null"))))
}

// failedIndex reports the cost if there is no index of the failed rows.
func (e *examination) failedIndex() {
	m := e.mapping
	if !m.Failed.Has() {
		return
	}
	failed := m.Failed.Name
	e.add(checkIndex,
		finding.WarnIf(!m.failedIndex, "no index of failed rows: the gauge failed_rows is left out, and looking for "+
			"failed rows reads the table", e.createIndex(failed+", "+m.ID.Name, failed+" is not null")),
		finding.OKIf(true, "failed rows are read in order from an index"))
}

// unique reports the consequences if two rows may have the same id.
func (e *examination) unique() {
	id := e.mapping.ID
	beside, ok := e.relation.uniqueWith(id)
	if ok && beside == nil {
		return
	}
	const meaning = "rows are distinguished by their places, a row that is changed while it is relayed is published " +
		"again, and consumers or JetStream may drop one of two messages with one id"
	text := "no unique index holds " + id.Plain + " alone, so two rows may have one id: " + meaning
	const draw = "let every writer draw ids that are used once in all "
	e.add("id",
		finding.WarnIf(e.partitioned(), text, draw+"partitions, uuids for example; an index can only see to it where "+
			"the table is partitioned by the id"),
		finding.WarnIf(e.relation.Children, text, draw+"these tables, uuids for example; no index can see to it"),
		finding.WarnIf(!id.NotNull, text, "alter table "+e.quoted+" alter "+id.Name+
			" set not null, and see to it that a unique index holds this column alone"),
		finding.WarnIf(true, text, "create unique index concurrently on "+e.quoted+" ("+id.Name+");"))
}

// createIndex returns the statement that creates an index, of all rows if there is no condition. An index on a
// partitioned table cannot be created concurrently.
func (e *examination) createIndex(columns, where string) string {
	how := "create index concurrently on "
	if e.partitioned() {
		how = "create index on "
	}
	if where != "" {
		where = " where " + where
	}
	return how + e.quoted + " (" + columns + ")" + where + ";"
}
