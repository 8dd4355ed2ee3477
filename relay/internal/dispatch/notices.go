package dispatch

import (
	"log/slog"
	"slices"
	"strings"
	"time"
)

// notices keep the log short where very many topics are held, or go on, at the same time: a topic for each entity is not
// unusual. The first topic is logged at once. What follows is gathered: one line tells it after a few seconds, and then one
// line a minute.
type notices map[notice]*noticed

// notice is a message about a topic without the topic's name. There are few different ones.
type notice struct {
	news        news
	destination string
	reason      Cause
}

// news is the kind of change.
type news uint8

const (
	topicHeld news = iota
	topicBack
	partHeld // some rows of the topic
	partBack
)

type noticed struct {
	told   time.Time // when there was last a line
	soon   bool      // that line was the first
	topics []string  // some of the topics that are not told yet
	others int       // number of the other ones
	err    error     // error of one of them
}

const (
	gatherFirst = 10 * time.Second
	gatherThen  = time.Minute
	mostTopics  = 5 // named in a line
)

// announce logs a change of a topic, or adds the topic to those that are told later.
func (n notices) announce(logger *slog.Logger, what notice, topic string, err error, now time.Time) {
	t := n[what]
	switch {
	case t == nil:
		n[what] = &noticed{told: now, soon: true}
		what.log(logger, topic, err)
		return
	case slices.Contains(t.topics, topic):
	case len(t.topics) < mostTopics:
		t.topics = append(t.topics, topic)
	default:
		t.others++
	}
	t.err = err
}

// tell logs what was gathered for long enough, or all of it.
func (n notices) tell(logger *slog.Logger, all bool, now time.Time) {
	for what, t := range n {
		gather := gatherThen
		if t.soon {
			gather = gatherFirst
		}
		switch {
		case len(t.topics) > 0 && (all || now.Sub(t.told) >= gather):
			topics := strings.Join(t.topics, ", ")
			if t.others > 0 {
				what.log(logger, topics, t.err, "others", t.others)
			} else {
				what.log(logger, topics, t.err)
			}
			*t = noticed{told: now}
		case now.Sub(t.told) >= gatherThen:
			delete(n, what)
		}
	}
}

// back returns the news of the end of a hold.
func (h *hold) back() news {
	if len(h.topics) > 0 {
		return topicBack
	}
	return partBack
}

// announce logs a change of a hold.
func (d *Dispatch) announce(what news, h *hold, now time.Time) {
	name := h.fate.String()
	if len(h.topics) > 0 {
		name = h.topics[0].name
	}
	n := notice{news: what, destination: d.To.Name}
	if what == topicHeld || what == partHeld {
		n.reason = h.cause
	}
	d.notices.announce(d.Logger, n, name, h.err, now)
}

func (n notice) log(logger *slog.Logger, topic string, err error, more ...any) {
	args := append([]any{"destination", n.destination, "topic", topic}, more...)
	switch n.news {
	case topicHeld:
		logger.Warn("topic is held", append(args, "reason", n.reason, "error", err)...)
	case topicBack:
		logger.Info("topic is back", args...)
	case partHeld:
		logger.Warn("rows of a topic are held", append(args, "reason", n.reason, "error", err)...)
	case partBack:
		logger.Info("rows of a topic are held no longer", args...)
	}
}
