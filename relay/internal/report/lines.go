// Package report writes about a destination's trouble to the log: once when it begins and once when it ends, and in few
// lines however many rows or topics are concerned.
package report

import (
	"context"
	"log/slog"
	"time"
)

// Lines logs at most twenty lines a minute, and then how many more there would have been. An application that keeps
// writing a bad payload, or that has a topic for each of ten thousand entities, would fill the log otherwise.
type Lines struct {
	Logger *slog.Logger
	More   string // message of the line for all others

	since  time.Time // when the first line of this minute was written
	lines  int       // written since then
	others int       // not written
}

const (
	linesFor  = time.Minute
	mostLines = 20
)

// Log writes a line, or counts it if this minute has had its lines.
func (l *Lines) Log(level slog.Level, now time.Time, message string, args ...any) {
	l.Flush(false, now)
	if l.lines == mostLines {
		l.others++
		return
	}
	if l.lines == 0 {
		l.since = now
	}
	l.lines++
	l.Logger.Log(context.Background(), level, message, args...)
}

// Flush ends a minute that is over, or in any case if last is true.
func (l *Lines) Flush(last bool, now time.Time) {
	if !last && now.Sub(l.since) < linesFor {
		return
	}
	if l.others > 0 {
		l.Logger.Warn(l.More, "others", l.others)
	}
	l.lines, l.others = 0, 0
}

// Cut returns a text, shortened if it is too long for the log.
func Cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
