package dispatch

import (
	"log/slog"
	"time"
)

// failedLog logs rows that have failed for good, each with its id and error, since it may be long before anyone looks
// at the table. If there are very many of them, for instance because an application keeps writing a bad payload, the
// log gives only their number.
type failedLog struct {
	logger *slog.Logger
	window time.Time // when the current window began
	logged int       // rows logged in it
	more   int       // rows of it that were not logged
}

const (
	failedWindow = time.Minute
	failedLines  = 20          // lines for single rows in a window
	failedTopic  = 200         // bytes of a topic in a line
	failedError  = 2 * 1 << 10 // bytes of an error in a line
)

// row logs that a row has failed, or would have. written says whether the table could record that.
func (l *failedLog) row(r *Row, err error, written bool, now time.Time) {
	if !l.room(now) {
		return
	}
	if written {
		l.logger.Warn("row failed", describe(r, err)...)
	} else {
		l.logger.Warn("row would fail, and the table has no failed_at to say so: its key waits", describe(r, err)...)
	}
}

// refused logs that a row will be tried again. known says whether the table, or an earlier line, already has that.
func (l *failedLog) refused(r *Row, err error, known bool, now time.Time) {
	switch {
	case known:
		l.logger.Debug("row refused, and tried again", describe(r, err)...)
	case l.room(now):
		l.logger.Warn("row refused, and the table has no last_error or failed_at to say so: it is tried again", describe(r, err)...)
	}
}

func describe(r *Row, err error) []any {
	return []any{
		"topic", cut(r.Message.Topic, failedTopic), "id", cut(r.Message.ID, failedTopic),
		"attempt", r.Try, "error", cut(err.Error(), failedError),
	}
}

// room reports whether one more row may be logged by itself.
func (l *failedLog) room(now time.Time) bool {
	l.flush(now)
	if l.logged == failedLines {
		l.more++
		return false
	}
	if l.logged == 0 {
		l.window = now
	}
	l.logged++
	return true
}

// flush ends a window whose time is over.
func (l *failedLog) flush(now time.Time) {
	if l.logged > 0 && now.Sub(l.window) >= failedWindow {
		l.end()
	}
}

// end ends the window.
func (l *failedLog) end() {
	if l.more > 0 {
		l.logger.Warn("more rows failed than are logged one by one; the table has their errors in last_error", "rows", l.more)
	}
	l.logged, l.more = 0, 0
}

// cut returns a text, shortened if it is too long for the log.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
