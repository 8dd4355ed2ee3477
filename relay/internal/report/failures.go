// Package report writes about a destination's trouble to the log: once when it begins and once when it ends, and in few
// lines however many rows or topics are concerned.
package report

import (
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Failures logs rows that have failed for good, each with its id and error, since it may be long before anyone looks
// at the table. If there are very many of them, for instance because an application keeps writing a bad payload, the
// log gives only their number.
type Failures struct {
	Logger *slog.Logger

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

// Failed logs that a row has failed with an error, or would have. written says whether the table could record that.
func (f *Failures) Failed(m *publisher.Message, attempt int64, err error, written bool, now time.Time) {
	if !f.room(now) {
		return
	}
	if written {
		f.Logger.Warn("row failed", args(m, attempt, err)...)
	} else {
		f.Logger.Warn("row would fail, and the table has no failed_at to say so: its key waits",
			args(m, attempt, err)...)
	}
}

// Refused logs that a row will be tried again. known says whether the table, or an earlier line, already has that.
func (f *Failures) Refused(m *publisher.Message, attempt int64, err error, known bool, now time.Time) {
	switch {
	case known:
		f.Logger.Debug("row refused, and tried again", args(m, attempt, err)...)
	case f.room(now):
		f.Logger.Warn("row refused, and the table has no last_error or failed_at to say so: it is tried again",
			args(m, attempt, err)...)
	}
}

// args returns what the log says of a row.
func args(m *publisher.Message, attempt int64, err error) []any {
	return []any{
		"topic", cut(m.Topic, failedTopic), "id", cut(m.ID, failedTopic), "attempt", attempt,
		"error", cut(err.Error(), failedError),
	}
}

// room reports whether one more row may be logged by itself.
func (f *Failures) room(now time.Time) bool {
	f.Flush(now)
	if f.logged == failedLines {
		f.more++
		return false
	}
	if f.logged == 0 {
		f.window = now
	}
	f.logged++
	return true
}

// Flush ends a window whose time is over.
func (f *Failures) Flush(now time.Time) {
	if f.logged > 0 && now.Sub(f.window) >= failedWindow {
		f.End()
	}
}

// End ends the window.
func (f *Failures) End() {
	if f.more > 0 {
		f.Logger.Warn("more rows failed than are logged one by one; the table has their errors in last_error",
			"rows", f.more)
	}
	f.logged, f.more = 0, 0
}

// cut returns a text, shortened if it is too long for the log.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
