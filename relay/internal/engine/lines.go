package engine

import "time"

// lines are those of one kind that the log has had in a minute, and those that would have been more. The log would be
// full otherwise of an application that keeps writing a bad payload, or that has a topic for each of its entities.
type lines struct {
	since  time.Time // when the first one was written
	number int       // lines since then, with those that were not written
}

// mostLines is the number of lines about single rows, and about topics, in a minute.
const mostLines = 20

// The kinds of lines of which so many are written.
const rowLines, topicLines = "rows", "topics"

// isNews reports whether the log may have one more line of a kind in this minute, and counts it. Of most kinds it has
// one.
func (e *Engine) isNews(kind string, now time.Time) bool {
	l, most := e.lines[kind], 1
	if l.number == 0 {
		l.since = now
	}
	l.number++
	e.lines[kind] = l
	if kind == rowLines || kind == topicLines {
		most = mostLines
	}
	return l.number <= most
}

// Report ends minutes that are over, or all of them if there is no later report, and logs how many rows and topics had
// no line of their own. It writes at most two lines for each minute. The user calls it some times a second.
func (e *Engine) Report(last bool, now time.Time) {
	for kind, l := range e.lines {
		if !last && now.Sub(l.since) < time.Minute {
			continue
		}
		delete(e.lines, kind)
		switch others := l.number - mostLines; {
		case others <= 0:
		case kind == rowLines:
			e.Logger.Warn("more rows failed than are logged one by one; the table has their errors in last_error",
				"others", others)
		case kind == topicLines:
			e.Logger.Warn("more topics are held, or go on, than are logged one by one", "others", others)
		}
	}
}

// cut returns a text, shortened if it is too long for the log.
func cut(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return text[:bytes] + "…"
}
