package engine

import (
	"context"
	"log/slog"
	"time"
)

// lines logs at most twenty lines a minute, and then how many more there would have been. An application that keeps
// writing a bad payload, or that has a topic for each of ten thousand entities, would fill the log otherwise.
type lines struct {
	logger *slog.Logger
	more   string // message of the line for all others

	since  time.Time // when the first line of this minute was written
	number int       // written since then
	others int       // not written
}

const (
	linesFor  = time.Minute
	mostLines = 20
)

// log writes a line, or counts it if this minute has had its lines.
func (l *lines) log(level slog.Level, now time.Time, message string, args ...any) {
	l.flush(false, now)
	if l.number == mostLines {
		l.others++
		return
	}
	if l.number == 0 {
		l.since = now
	}
	l.number++
	l.logger.Log(context.Background(), level, message, args...)
}

// flush ends a minute that is over, or in any case if last is true.
func (l *lines) flush(last bool, now time.Time) {
	if !last && now.Sub(l.since) < linesFor {
		return
	}
	if l.others > 0 {
		l.logger.Warn(l.more, "others", l.others)
	}
	l.number, l.others = 0, 0
}

// cut returns a text, shortened if it is too long for the log.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
