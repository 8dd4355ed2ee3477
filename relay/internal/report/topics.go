package report

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Topics logs which topics of a destination are held, and which go on, in few lines where very many change at the same time: a topic
// for each entity is not unusual. The first topic is logged at once. What follows is gathered: one line reports it after a few
// seconds, and then one line a minute. A change that is undone before it is logged is not reported.
type Topics struct {
	logger *slog.Logger
	series map[Change]*gathered
}

// Change is a change of a topic. Changes that are equal are logged together.
type Change struct {
	News   News
	Reason string // why the topic is held; empty if it goes on
}

// News is a kind of change.
type News uint8

const (
	Held     News = iota // the topic is held
	Back                 // the topic goes on
	PartHeld             // some rows of the topic are held
	PartBack             // these rows go on
)

func (n News) held() bool { return n == Held || n == PartHeld }

func (n News) part() bool { return n == PartHeld || n == PartBack }

// gathered are the topics that one line will report.
type gathered struct {
	logged time.Time // when there was last a line
	first  bool      // that line was the first
	topics []string  // some of the topics
	others int       // number of the other ones
	err    error     // error of one of them
}

const (
	gatherFirst = 10 * time.Second
	gatherThen  = time.Minute
	mostTopics  = 5 // named in a line
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
	case len(g.topics) < mostTopics:
		g.topics = append(g.topics, topic)
	default:
		g.others++
	}
	g.err = err
}

// undoes takes a topic out of the other changes that are to be logged, and reports whether the log is right without this one.
func (t Topics) undoes(c Change, topic string) (right bool) {
	for other, g := range t.series {
		if i := slices.Index(g.topics, topic); i >= 0 && other != c && other.News.part() == c.News.part() {
			g.topics = slices.Delete(g.topics, i, i+1)
			right = right || other.News.held() != c.News.held()
		}
	}
	return right
}

// Flush logs what was gathered for long enough, or all of it.
func (t Topics) Flush(all bool, now time.Time) {
	inOrder := func(a, b Change) int { return cmp.Or(cmp.Compare(a.News, b.News), cmp.Compare(a.Reason, b.Reason)) }
	for _, c := range slices.SortedFunc(maps.Keys(t.series), inOrder) {
		g := t.series[c]
		gather := gatherThen
		if g.first {
			gather = gatherFirst
		}
		switch {
		case len(g.topics)+g.others > 0 && (all || now.Sub(g.logged) >= gather):
			topics := strings.Join(g.topics, ", ")
			if g.others > 0 {
				t.log(c, topics, g.err, "others", g.others)
			} else {
				t.log(c, topics, g.err)
			}
			*g = gathered{logged: now}
		case now.Sub(g.logged) >= gatherThen:
			delete(t.series, c)
		}
	}
}

func (t Topics) log(c Change, topic string, err error, more ...any) {
	args := append([]any{"topic", topic}, more...)
	why := append(slices.Clip(args), "reason", c.Reason, "error", err)
	switch c.News {
	case Held:
		t.logger.Warn("topic is held", why...)
	case Back:
		t.logger.Info("topic is back", args...)
	case PartHeld:
		t.logger.Warn("rows of a topic are held", why...)
	case PartBack:
		t.logger.Info("rows of a topic are held no longer", args...)
	}
}
