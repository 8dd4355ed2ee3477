package engine

import "time"

// lines lets twenty lines a minute into the log, and counts what would have been more. An application that keeps
// writing a bad payload, or that has a topic for each of ten thousand entities, would fill the log otherwise. What is
// not written is counted, and the number follows when the minute is over ([Engine.Report]).
type lines struct {
	since  time.Time // when the first line of this minute was written
	number int       // lines written since then
	others int       // not written
}

const (
	linesFor  = time.Minute
	mostLines = 20
)

// room reports whether one more line may be written, and counts it.
func (l *lines) room(now time.Time) bool {
	if l.number == mostLines {
		l.others++
		return false
	}
	if l.number == 0 {
		l.since = now
	}
	l.number++
	return true
}

// end ends a minute that is over, or in any case if last is true. It returns the number of lines that were not written.
func (l *lines) end(last bool, now time.Time) (others int) {
	if !last && now.Sub(l.since) < linesFor {
		return 0
	}
	others = l.others
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
