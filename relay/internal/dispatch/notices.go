package dispatch

import (
	"log/slog"
	"time"
)

// notices keep the log short where very many topics are held, or go on, at the same time. The first few are logged one
// by one. For the others, the log gives their number now and then. A topic for each entity is not unusual.
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
	since  time.Time
	alone  int // number of topics logged one by one since then
	others int // number of topics not logged yet
	topic  string
	err    error // error of one of these topics
}

const (
	loggedAlone  = 5
	loggedOthers = 10 * time.Second
)

// announce logs a change of a topic, or counts the topic among those that are logged later.
func (n notices) announce(logger *slog.Logger, what notice, topic string, err error, now time.Time) {
	t := n[what]
	if t == nil {
		t = &noticed{since: now}
		n[what] = t
	}
	if t.alone == loggedAlone {
		t.others++
		t.topic, t.err = topic, err
		return
	}
	t.alone++
	what.log(logger, topic, err)
}

// others logs the topics that were not logged one by one.
func (n notices) others(logger *slog.Logger, now time.Time) {
	for what, t := range n {
		switch {
		case now.Sub(t.since) < loggedOthers:
		case t.others == 0:
			delete(n, what)
		default:
			what.log(logger, t.topic, t.err, "others", t.others-1)
			t.since, t.others = now, 0
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
