package relay

import (
	"log/slog"
	"time"
)

// failedLog tells of rows that have failed for good, each with its id and error, since nobody may look at the table for long. A flood
// of them, of a payload that an application gets wrong all the time, say, is told by number.
type failedLog struct {
	logger *slog.Logger
	window time.Time // when the present minute began
	told   int       // in it
	more   int       // that were not
}

const (
	failedWindow = time.Minute
	failedLines  = 20          // of single rows in a window
	failedTopic  = 200         // bytes of a topic in a line
	failedError  = 2 * 1 << 10 // bytes of an error
)

// row notes that a row has failed, or would have: written says whether the table could keep that.
func (l *failedLog) row(r *row, err error, written bool, now time.Time) {
	if !l.room(now) {
		return
	}
	if written {
		l.logger.Warn("row failed", describe(r, err)...)
	} else {
		l.logger.Warn("row would fail, and the table has no failed_at to say so: its key waits", describe(r, err)...)
	}
}

// refused notes that a row will be tried again: known says whether the table, or an earlier line, tells of it.
func (l *failedLog) refused(r *row, err error, known bool, now time.Time) {
	switch {
	case known:
		l.logger.Debug("row refused, and tried again", describe(r, err)...)
	case l.room(now):
		l.logger.Warn("row refused, and the table has no last_error or failed_at to say so: it is tried again", describe(r, err)...)
	}
}

func describe(r *row, err error) []any {
	return []any{"destination", r.destination.Name, "topic", cut(r.Message.Topic, failedTopic), "id", cut(r.Message.ID, failedTopic),
		"attempt", r.attempt, "error", cut(err.Error(), failedError)}
}

// room reports whether one more row is told of by itself.
func (l *failedLog) room(now time.Time) bool {
	l.flush(now)
	if l.told == failedLines {
		l.more++
		return false
	}
	if l.told == 0 {
		l.window = now
	}
	l.told++
	return true
}

// flush ends a window that is over.
func (l *failedLog) flush(now time.Time) {
	if l.told > 0 && now.Sub(l.window) >= failedWindow {
		l.end()
	}
}

// end ends the window.
func (l *failedLog) end() {
	if l.more > 0 {
		l.logger.Warn("more rows failed than are told one by one; the table has their errors in last_error", "rows", l.more)
	}
	l.told, l.more = 0, 0
}

// cut returns the beginning of a text that is too long for a log.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
