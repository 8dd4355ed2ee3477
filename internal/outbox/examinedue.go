package outbox

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/sql"
)

// dueTimes reports the cost if a table with available_at lacks one of the indexes that separate rows scheduled for
// later.
func (e *examination) dueTimes() {
	m := e.mapping
	if m.available == nil {
		return
	}
	name := m.available.Plain
	columns := e.orderColumns()
	if m.rank != nil {
		columns = "(" + rank(m) + "), " + columns
	}
	switch {
	case !m.dueIndex:
		e.warn(checkIndex, e.createIndex("("+sql.Quote(name)+", "+columns+")"+e.whereAvailable("is not null")),
			"no index of due times: rows with %s are looked for among all that are scheduled for later, and relayed half a second late, or many "+
				"seconds while hundreds of thousands are", name)
	case !m.available.NotNull:
		e.ok(checkIndex, "rows with %s are read by that time, from an index; they keep no order", name)
	default:
		e.warn(checkIndex, "let "+name+" be null in rows that are to be relayed at once and in order: alter table "+e.table.Quoted()+" alter "+
			sql.Quote(name)+" drop not null, alter "+sql.Quote(name)+" drop default;",
			"%s is never null: every row is read by that time, and rows of one key keep no order", name)
	}
	undelayed := isNullPrinted(m.available)
	printed := slices.Concat(m.orderedPrinted(e.relation), undelayed)
	if !m.available.NotNull && !e.any(func(i index) bool {
		return i.usableFor(printed...) && slices.ContainsFunc(i.conjuncts, func(c string) bool { return slices.Contains(undelayed, c) })
	}) {
		e.warn(checkIndex, e.createIndex("("+columns+")"+e.whereAvailable("is null")),
			"no index of the pending rows without %s in their order: reads of these step over every row that is scheduled for later", name)
	}
}

// whereAvailable is the condition for an index of pending rows, with an additional condition on available_at.
func (e *examination) whereAvailable(condition string) string {
	condition = e.mapping.available.Name + " " + condition
	if where := e.where(); where != "" {
		return where + " and " + condition
	}
	return " where " + condition
}
