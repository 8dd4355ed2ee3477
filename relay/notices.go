package relay

import (
	"fmt"
	"log/slog"
	"time"
)

// notices keep the log short where very many topics are held, or go on, at once: the first few are told one by one, and of the others how
// many there were, now and then. An entity with a topic of its own is nothing unusual.
type notices map[notice]*told

// notice is what is said of a topic but for its name: there are few.
type notice struct {
	news        news
	destination string
	reason      cause
}

// news is what has changed.
type news uint8

const (
	topicHeld news = iota
	topicBack
	partHeld // rows of the topic
	partBack
)

type told struct {
	since  time.Time
	alone  int // told one by one since
	others int // not told yet
	topic  string
	err    error // of one of them
}

const (
	toldAlone  = 5
	toldOthers = 10 * time.Second
)

// tell says something of a topic, or counts it among those of which it is said later.
func (n notices) tell(logger *slog.Logger, what notice, topic string, err error, now time.Time) {
	t := n[what]
	if t == nil {
		t = &told{since: now}
		n[what] = t
	}
	if t.alone == toldAlone {
		t.others++
		t.topic, t.err = topic, err
		return
	}
	t.alone++
	what.log(logger, topic, err)
}

// others tells of those that were not told one by one.
func (n notices) others(logger *slog.Logger, now time.Time) {
	for what, t := range n {
		switch {
		case now.Sub(t.since) < toldOthers:
		case t.others == 0:
			delete(n, what)
		default:
			what.log(logger, t.topic, t.err, "others", t.others-1)
			t.since, t.others = now, 0
		}
	}
}

// news returns what the log is told when a hold ends.
func (h *hold) back() news {
	if len(h.topics) > 0 {
		return topicBack
	}
	return partBack
}

// tell says something of a hold in the log.
func (d *dispatch) tell(what news, h *hold, now time.Time) {
	name := h.fate.String()
	if len(h.topics) > 0 {
		name = h.topics[0].name
	}
	n := notice{news: what, destination: d.to.Name}
	if what == topicHeld || what == partHeld {
		n.reason = h.cause
	}
	d.notices.tell(d.logger, n, name, h.err, now)
}

// heldTopics says what is held: one of it with the reason, and how much else.
func (d *dispatch) heldTopics() string {
	var worst *hold
	var name string
	n := 0
	for _, h := range d.holds.byFate {
		if len(h.told) == 0 {
			continue
		}
		this := h.fate.String()
		if len(h.topics) > 0 {
			this = fmt.Sprintf("topic %q", h.topics[0].name)
		}
		if n++; worst == nil || this < name { // the same one each time
			worst, name = h, this
		}
	}
	if worst == nil {
		return ""
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(" (and %d others)", n-1)
	}
	return fmt.Sprintf("rows of %s are held%s: %v", name, more, worst.err)
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
