package outbox

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A Filter says which rows are those of one destination, among several that keep their state in the same columns. Each row belongs
// to the first destination whose patterns take its topic. The zero Filter takes every row.
type Filter struct {
	Topics []string   // patterns of the rows' topics ([pattern.Takes]); none takes every topic
	Before [][]string // the patterns of each destination that comes earlier, and has what it takes
}

// Takes reports whether the filter takes rows of a topic. A topic that is NULL counts as an empty one.
func (f Filter) Takes(topic string) bool {
	earlier := func(patterns []string) bool { return pattern.Takes(patterns, topic) }
	return pattern.Takes(f.Topics, topic) && !slices.ContainsFunc(f.Before, earlier)
}

// condition is what Takes reports, in SQL. Like the filter of an index it holds constants only.
func (f Filter) condition(topic *column) string {
	text := pattern.Text(sql.Quote(topic.name))
	condition := pattern.SQL(text, f.Topics)
	for _, before := range f.Before {
		condition = pattern.And(condition, pattern.Not(pattern.SQL(text, before)))
	}
	return condition
}
