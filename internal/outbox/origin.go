package outbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// upstream is what a view that takes the failed or relayed rows of another destination knows of that.
type upstream struct {
	name               string
	failed             bool    // it takes those that have failed there
	without            *column // null in the rows that it takes; nil for none
	attempt, lastError *column // of failed rows
}

// fromOrigin lets the rows of a view come from another destination: in the order of the time when they failed or were relayed there,
// which is also when they were due, and without a key. What tells when they were inserted tells nothing of that: neither when they are
// available, nor their priority, nor the inserting transaction.
func (p *parts) fromOrigin(config Config) {
	from := p.view.origin()
	if from == nil {
		return
	}
	there, problems := mapColumns(p.relation, config, *from)
	if len(problems) > 0 {
		p.problems = append(p.problems, problems...)
		return
	}
	o := &upstream{name: from.Name, failed: p.view.FailedOf != nil}
	at := there.relayed
	if o.failed {
		at, o.attempt, o.lastError = there.failed, there.attempt, there.lastError
		o.without = there.relayed // set when somebody has discarded the row and kept it
	} else {
		o.without = there.failed
	}
	if at == nil {
		p.fail("give it the column, or remove "+p.view.variable("FAILED_OF"),
			"destination %s takes what has failed at %s, which has no column failed_at", p.view.Name, from.Name)
		return
	}
	m, due := p.mapping, *at
	due.notNull = true // in the rows that are pending
	m.origin, m.order, m.key, m.keyColumn = o, &due, noKey, ""
	m.available, m.rank = nil, nil
	if m.txid = nil; m.written {
		m.writer = rowWriter
	}
	if !p.writers {
		m.writer, m.written = longAgo, false
	}
	p.describeFailure()
}

// describeFailure sends what is known of a failure as headers, instead of the row's own of these names.
func (p *parts) describeFailure() {
	o := p.mapping.origin
	if !o.failed {
		return
	}
	utc := sql.Quote(p.mapping.order.name)
	if p.mapping.order.oid == oidTimestamptz {
		utc = "(" + utc + " at time zone 'UTC')"
	}
	p.placed = append(p.placed, placed{HeaderDestination, strings.TrimSpace(sql.Literal(o.name)) + "::text"},
		placed{HeaderTopic, p.text(p.topic)})
	if o.attempt != nil {
		p.placed = append(p.placed, placed{HeaderAttempt, "coalesce(" + sql.Quote(o.attempt.name) + ", 1)::text"})
	}
	p.placed = append(p.placed, placed{HeaderFailedAt, fmt.Sprintf(`to_char(%s, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`, utc)})
	if o.lastError != nil {
		p.placed = append(p.placed, placed{HeaderError, p.text(o.lastError)})
	}
}

// Headers of a dead letter.
const (
	HeaderDestination = "outbox-destination" // where the row has failed
	HeaderTopic       = "outbox-topic"       // the row's topic
	HeaderAttempt     = "outbox-attempt"     // the number of the try that would come next there
	HeaderFailedAt    = "outbox-failed-at"   // RFC 3339, UTC
	HeaderError       = "outbox-error"       // why, and which of the row's own headers could not travel
)

// DescribesFailure reports whether a header is one of those that a dead letter is given.
func DescribesFailure(header string) bool {
	switch strings.ToLower(header) {
	case HeaderDestination, HeaderTopic, HeaderAttempt, HeaderFailedAt, HeaderError:
		return true
	}
	return false
}

// makeRoom leaves out of the row's own headers, which begin at start, those in whose place a dead letter's stand, and all of them if they
// cannot be read: that is no reason to fail again.
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

// forget returns the assignments that let the dead letters of a view be sent again, for rows of which the condition says that they have
// failed.
func (t *Table) forget(condition string) (assignments []string) {
	var done []string
	for _, v := range t.config.deadLetters(t.view) {
		m, problems := mapColumns(t.relation, t.config, v)
		if len(problems) > 0 {
			continue // it does not run before these are solved
		}
		for _, c := range []struct {
			column *column
			empty  string
		}{{m.relayed, "null"}, {m.failed, "null"}, {m.lastError, "null"}, {m.attempt, "1"}} {
			if c.column == nil || slices.Contains(done, c.column.name) {
				continue
			}
			done = append(done, c.column.name)
			name := sql.Quote(c.column.name)
			assignments = append(assignments, fmt.Sprintf("%s = case when %s then %s else t.%s end", name, condition, c.empty, name))
		}
	}
	return assignments
}
