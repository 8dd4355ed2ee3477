package engine

import "time"

// mostLines is the number of lines about single rows, and about topics, in a minute. The log would be full otherwise of
// an application that keeps writing a bad payload, or that has a topic for each of its entities.
const mostLines = 20

// The kinds of lines of which so many are written.
const rowLines, topicLines = "rows", "topics"

// isNews reports whether the log may have one more line of a kind in this minute, and counts it. Of most kinds it has
// one. Where the minute has had all of its lines about rows or topics, the log says that there are more.
func (e *Engine) isNews(kind string, now time.Time) bool {
	if now.Sub(e.minute) >= time.Minute {
		e.minute = now
		clear(e.lines)
	}
	e.lines[kind]++
	if kind != rowLines && kind != topicLines {
		return e.lines[kind] == 1
	}
	if e.lines[kind] == mostLines+1 {
		e.Logger.Warn("further lines of this kind are left out until the minute is over", "about", kind)
	}
	return e.lines[kind] <= mostLines
}

// cut returns a text, shortened if it is too long for the log.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
