package report

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Topics logs which topics of a destination are held, and which go on, in few lines where very many change at the same
// time: a topic for each entity is not unusual. The first topic is logged at once. What follows is gathered: one line
// reports it after a few seconds, and then one line a minute. A change that is undone before it is logged is not
// reported.
type Topics struct {
	logger *slog.Logger
	series map[Change]*gathered
}

// Change is a change of a topic. Changes that are equal are logged together.
type Change struct {
	Part   bool   // only some rows of the topic are concerned
	Reason string // why the topic is held; empty if it goes on
}

func (c Change) held() bool { return c.Reason != "" }

// gathered are the topics that one line will report.
type gathered struct {
	logged time.Time // when there was last a line
	first  bool      // that line was the first
	topics []string  // at most mostKept of the topics
	others int       // number of the other ones
	err    error     // error of one of them
}

const (
	gatherFirst = 10 * time.Second
	gatherThen  = time.Minute
	mostTopics  = 5   // named in a line
	mostKept    = 100 // remembered, in case their changes are undone
)

// NewTopics makes Topics that log nothing yet.
func NewTopics(logger *slog.Logger) Topics {
	return Topics{logger: logger, series: map[Change]*gathered{}}
}

// Add logs a change of a topic, or adds the topic to those that are logged later.
func (t Topics) Add(c Change, topic string, err error, now time.Time) {
	if t.undoes(c, topic) {
		return
	}
	g := t.series[c]
	switch {
	case g == nil:
		t.series[c] = &gathered{logged: now, first: true}
		t.log(c, topic, err)
		return
	case slices.Contains(g.topics, topic):
	case len(g.topics) < mostKept:
		g.topics = append(g.topics, topic)
	default:
		g.others++
	}
	g.err = err
}

// undoes takes a topic out of the other changes that are to be logged, and reports whether the log is right without
// this one.
func (t Topics) undoes(c Change, topic string) (right bool) {
	for other, g := range t.series {
		if i := slices.Index(g.topics, topic); i >= 0 && other != c && other.Part == c.Part {
			if g.topics = slices.Delete(g.topics, i, i+1); len(g.topics) == 0 {
				g.others = 0 // a line that names no topic helps nobody
			}
			right = right || other.held() != c.held()
		}
	}
	return right
}

// Flush logs what was gathered for long enough, or all of it.
func (t Topics) Flush(all bool, now time.Time) {
	order := func(c Change) string { return fmt.Sprint(c.Part, !c.held(), c.Reason) }
	inOrder := func(a, b Change) int { return cmp.Compare(order(a), order(b)) }
	for _, c := range slices.SortedFunc(maps.Keys(t.series), inOrder) {
		g := t.series[c]
		gather := gatherThen
		if g.first {
			gather = gatherFirst
		}
		switch {
		case len(g.topics) > 0 && (all || now.Sub(g.logged) >= gather):
			named := g.topics[:min(len(g.topics), mostTopics)]
			var more []any
			if others := len(g.topics) + g.others - len(named); others > 0 {
				more = []any{"others", others}
			}
			t.log(c, strings.Join(named, ", "), g.err, more...)
			*g = gathered{logged: now}
		case now.Sub(g.logged) >= gatherThen:
			delete(t.series, c)
		}
	}
}

func (t Topics) log(c Change, topic string, err error, more ...any) {
	args := append([]any{"topic", topic}, more...)
	why := append(slices.Clip(args), "reason", c.Reason, "error", err)
	switch {
	case c.held() && c.Part:
		t.logger.Warn("rows of a topic are held", why...)
	case c.held():
		t.logger.Warn("topic is held", why...)
	case c.Part:
		t.logger.Info("rows of a topic are held no longer", args...)
	default:
		t.logger.Info("topic is back", args...)
	}
}
