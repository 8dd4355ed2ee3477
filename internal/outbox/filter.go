package outbox

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
)

// A Filter says which rows belong to one of several destinations that keep their state in the same columns. Each row
// belongs to the first destination whose patterns take its topic. The zero Filter takes every row.
type Filter struct {
	Topics []string   // patterns of the rows' topics ([pattern.Takes]); an empty list takes every topic
	Before [][]string // the patterns of each earlier destination, which has precedence
}

// Takes reports whether the filter takes rows of a topic. A topic that is NULL counts as an empty one.
func (f Filter) Takes(topic string) bool {
	earlier := func(patterns []string) bool { return pattern.Takes(patterns, topic) }
	return pattern.Takes(f.Topics, topic) && !slices.ContainsFunc(f.Before, earlier)
}

// condition expresses Takes in SQL. It uses constants only, like the predicate of an index. It leaves out earlier
// destinations that take no topic of this one, so that it stays the same when such a destination is added, changed or
// moved.
func (f Filter) condition(topic Column) string {
	text := pattern.Text(topic.Name)
	condition := pattern.SQL(text, f.Topics)
	for _, before := range f.Before {
		if pattern.MayMeet(before, f.Topics) {
			condition = pattern.And(condition, pattern.Not(pattern.SQL(text, before)))
		}
	}
	return condition
}
