package engine

import "time"

// lines lets twenty lines a minute into the log, and counts what would have been more. An application that keeps
// writing a bad payload, or that has a topic for each of ten thousand entities, would fill the log otherwise. The
// number of those that were not written follows when the minute is over ([Engine.Report]).
type lines struct {
	since  time.Time // when the first line of this minute was written
	number int       // lines since then, with those that were not written
}

const (
	linesFor  = time.Minute
	mostLines = 20
)

// room reports whether one more line may be written, and counts it.
func (l *lines) room(now time.Time) bool {
	if l.number == 0 {
		l.since = now
	}
	l.number++
	return l.number <= mostLines
}

// end ends a minute that is over, or in any case if last is true. It returns the number of lines that were not written.
func (l *lines) end(last bool, now time.Time) (others int) {
	if !last && now.Sub(l.since) < linesFor {
		return 0
	}
	others = max(0, l.number-mostLines)
	*l = lines{}
	return others
}

// cut returns a text, shortened if it is too long for the log.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
