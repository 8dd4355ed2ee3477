package outbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// fromOrigin makes the rows of a view come from another destination. Their order, and the time since when they are due,
// is the time when they failed or were relayed there. They have no key. The columns about the insert do not apply: they
// say neither when the rows become available, nor their priority, nor the transaction that made them available.
func (m *mapping) fromOrigin() {
	v, from := m.view, m.view.origin()
	if from == nil {
		return
	}
	there := m.stateOf(*from)
	at, without := there.Relayed, there.Failed
	if v.FailedOf != nil {
		at, without = there.Failed, there.Relayed // which is set if an operator has discarded the row and kept it
	}
	if !at.Has() {
		m.fail("give it the column, or remove "+v.Names.Of("FailedOf"),
			"destination %s takes what has failed at %s, which has no column failed_at", v.Name, from.Name)
		return
	}
	at.NotNull = true // in pending rows
	m.origin, m.without, m.Order, m.Key, m.keySource = from, without, at, noKey, noSource
	m.Available, m.Rank, m.Txid = Column{}, Column{}, Column{}
	if v.FailedOf != nil { // headers describe the failure, in place of the row's own headers of these names
		const failedAt = `to_char(%s at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
		m.placed = append(slices.Clip(m.placed),
			placed{HeaderDestination, sql.Literal(from.Name) + "::text"},
			placed{HeaderTopic, m.Topic.text()},
			placed{HeaderAttempt, there.Attempt.text()},
			placed{HeaderFailedAt, fmt.Sprintf(failedAt, at.zoned())},
			placed{HeaderError, there.LastError.text()})
	}
}

// Headers of a dead letter.
const (
	HeaderDestination = "outbox-destination" // the destination where the row has failed
	HeaderTopic       = "outbox-topic"       // the row's topic
	HeaderAttempt     = "outbox-attempt"     // the number of the next attempt there
	HeaderFailedAt    = "outbox-failed-at"   // RFC 3339, UTC
	HeaderError       = "outbox-error"       // the error, and which of the row's own headers were left out
)

// DescribesFailure reports whether a header is one of those that a dead letter gets.
func DescribesFailure(header string) bool {
	names := []string{HeaderDestination, HeaderTopic, HeaderAttempt, HeaderFailedAt, HeaderError}
	return slices.Contains(names, strings.ToLower(header))
}

// makeRoom removes the row's own headers, which begin at start, whose names a dead letter's headers have. If the row's
// headers cannot be read, it removes all of them: a dead letter must not fail again for that.
func (r *Row) makeRoom(headers []publisher.Header, start int, unread error) []publisher.Header {
	if unread != nil {
		r.LeftOut = []string{"all"}
		return headers[:start]
	}
	own := slices.DeleteFunc(headers[start:], func(h publisher.Header) bool {
		if DescribesFailure(h.Name) {
			r.LeftOut = append(r.LeftOut, h.Name)
			return true
		}
		return false
	})
	return headers[:start+len(own)]
}

// unsent returns the assignments that make the dead letters of a view be sent again, of the columns that count. form
// takes a column and its value while nothing has been sent.
func (t *Table) unsent(form string, counts func(Column) bool) (assignments []string) {
	for _, v := range t.config.deadLetters(t.view) {
		m := t.see(v)
		for _, c := range []Column{m.Relayed, m.Failed, m.LastError, m.Attempt} {
			value := "null"
			if c == m.Attempt {
				value = "1"
			}
			if c.Has() && counts(c) { // several destinations may share the columns
				assignments = append(assignments, fmt.Sprintf(form, c.Name, value))
			}
		}
	}
	slices.Sort(assignments)
	return slices.Compact(assignments)
}
