package outbox

import (
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

const checkIndex = "index"

// indexes reports the cost of each missing index, and the statement that creates it.
func (e *examination) indexes() {
	m := e.mapping
	if e.view.Columns == nil {
		e.pendingIndex()
	}
	e.unique()
	if !e.any(func(i index) bool { return i.starts(m.id.Plain) && i.usableFor() }) {
		without := "each write of the relay"
		if m.apart {
			without = "each try of a row that has no key and was refused or held"
		}
		e.warn(checkIndex, e.createIndex("("+m.id.Name+")"), "no index by %s: %s reads the whole table", m.id.Plain, without)
	}
	if e.view.Columns != nil {
		return
	}
	e.failedIndex()
	e.byKey()
}

// byKey reports what it costs that there is no index of the pending rows by key.
func (e *examination) byKey() {
	m := e.mapping
	const cost = "while rows are refused, or a topic is missing, each round of retries passes over all pending rows"
	columns := m.keyHash()
	if m.rank != nil {
		columns += ", " + rank(m)
	}
	create := e.createIndex("(" + columns + ", " + m.order.Name + ")" + e.where())
	switch {
	case m.keyIndex:
		e.ok(checkIndex, "pending rows of a key are found by an index")
	case m.keyVaries:
		e.warn(checkIndex, "keep the key in a column of type text, or in jsonb in place of json",
			"no index of pending rows by key is possible, since the text of the key's type depends on settings: %s", cost)
	case m.key == noKey: // a row that waits keeps no others back
		e.ok(checkIndex, "no index of pending rows by what stands for their key: %s: %s", cost, create)
	default:
		e.warn(checkIndex, create, "no index of pending rows by key: %s", cost)
	}
}

// where begins the condition for an index of pending rows. It is empty if all rows are pending.
func (e *examination) where() string {
	pending, _ := e.mapping.pending()
	if pending = pattern.And(pending, e.mapping.filter); pending == pattern.Always {
		return ""
	}
	return " where " + pending
}

// pendingIndex reports the cost if there is no index of the pending rows, or none that fits.
func (e *examination) pendingIndex() {
	m := e.mapping
	printed := m.orderedPrinted(e.relation)
	where, head := e.where(), e.orderColumns()
	if m.dueIndex {
		where = e.whereAvailable("is null")
	}
	switch inOrder, relayedFirst := e.inOrder(printed); {
	case m.rank != nil && !e.any(func(i index) bool { return i.usableFor(printed...) && i.startsWith(rank(m)) }):
		e.warn(checkIndex, e.createIndex("("+rank(m)+", "+head+")"+where),
			"no index of pending rows by priority: each poll reads and sorts all that is pending")
	case m.rank != nil && !m.orderIndex:
		e.warn(checkIndex, e.createIndex("("+head+")"+where),
			"no index of pending rows in table order, only by priority: while rows with larger priorities come all the time, the others "+
				"wait for as long")
	case m.rank == nil && !inOrder && !relayedFirst:
		e.warn(checkIndex, e.createIndex("("+head+")"+where),
			"no index of pending rows in their order: each poll reads the table, so polls are made less often, and pending_rows and "+
				"oldest_pending_age_seconds are left out")
	case e.view.Columns != nil && !m.filtered:
		e.warn(checkIndex, e.createIndex("("+head+")"+where),
			"the index of pending rows also holds those that the destination never takes, for ever: each read steps over all of them, and "+
				"pending_rows and oldest_pending_age_seconds are left out")
	case m.rank == nil && !inOrder && m.failed != nil && !e.any(func(i index) bool {
		return i.usableFor(printed...) && i.starts(m.relayed.Plain, m.order.Plain) && len(i.conjuncts) > 0
	}):
		e.warn(checkIndex, e.createIndex("("+head+")"+where),
			"the index of pending rows holds failed ones too: while many rows have failed, each poll steps over all of them")
	default:
		e.ok(checkIndex, "pending rows are read in order from an index")
	}
	e.dueTimes()
}

// failedIndex reports the cost if there is no index of the failed rows.
func (e *examination) failedIndex() {
	m := e.mapping
	if m.failed == nil {
		return
	}
	failed := m.failed.Name
	create := e.createIndex("(" + failed + ", " + m.id.Name + ") where " + failed + " is not null")
	switch {
	case !m.failedIndex:
		e.warn(checkIndex, create, "no index of failed rows: the gauge failed_rows is left out, and looking for failed rows reads the table")
	default:
		e.ok(checkIndex, "failed rows are read in order from an index")
	}
}

// unique reports the consequences if two rows may have the same id.
func (e *examination) unique() {
	const check = "id"
	id := e.mapping.id
	var remedy string
	switch {
	case e.relation.uniqueBy(id):
		return
	case e.partitioned():
		remedy = "let every writer draw ids that are used once in all partitions, uuids for example; an index can only see to it where the " +
			"table is partitioned by the id"
	case e.relation.children:
		remedy = "let every writer draw ids that are used once in all these tables, uuids for example; no index can see to it"
	case !id.NotNull:
		remedy = "alter table " + e.table.Quoted() + " alter " + id.Name +
			" set not null, and see to it that a unique index holds this column alone"
	default:
		remedy = "create unique index concurrently on " + e.table.Quoted() + " (" + id.Name + ");"
	}
	meaning := "rows are distinguished by their places, a row that is changed while it is relayed is published again, and consumers or " +
		"JetStream may drop one of two messages with one id"
	if !e.mapping.apart {
		meaning = "of two rows with one id one may be marked without being published, since role " + e.relation.role +
			" may not read where rows are (it needs the right to select from the whole table)"
	}
	e.warn(check, remedy, "no unique index holds %s alone, so two rows may have one id: %s", id.Plain, meaning)
}

// inOrder reports whether an index gives the pending rows in their order, and whether an index that begins with
// relayed_at does.
func (e *examination) inOrder(pending []string) (plain, relayedFirst bool) {
	m := e.mapping
	for _, i := range e.relation.indexes {
		if !i.usableFor(pending...) {
			continue
		}
		plain = plain || i.starts(m.order.Plain) && (m.partial(i) || m.relayed == nil)
		relayedFirst = relayedFirst || m.relayed != nil && i.starts(m.relayed.Plain, m.order.Plain)
	}
	return plain, relayedFirst
}

func (e *examination) any(fits func(index) bool) bool {
	for _, i := range e.relation.indexes {
		if fits(i) {
			return true
		}
	}
	return false
}

// orderColumns are the columns of an index in table order.
func (e *examination) orderColumns() string {
	m := e.mapping
	columns := []string{m.order.Name}
	if m.order != m.id {
		columns = append(columns, m.id.Name)
	}
	return strings.Join(columns, ", ")
}

// createIndex returns the statement that creates an index. An index on a partitioned table cannot be created
// concurrently.
func (e *examination) createIndex(definition string) string {
	how := "create index concurrently on "
	if e.partitioned() {
		how = "create index on "
	}
	return how + e.table.Quoted() + " " + definition + ";"
}
