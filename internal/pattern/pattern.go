// Package pattern implements a destination's patterns of topics, in Go and in SQL. In a pattern * stands for any text,
// including none, and every other character for itself. A pattern that begins with ! excludes topics.
package pattern

import "strings"

// Takes reports whether patterns take a topic: one of them matches, and none that begins with ! does. An empty list, or one
// with only exclusions, takes every topic that is not excluded.
func Takes(patterns []string, topic string) bool {
	taken, only := false, true // only exclusions so far
	for _, pattern := range patterns {
		if excluded, is := strings.CutPrefix(pattern, "!"); is {
			if fits(excluded, topic) {
				return false
			}
			continue
		}
		only = false
		taken = taken || fits(pattern, topic)
	}
	return taken || only
}

// fits reports whether a topic matches a pattern, in which * stands for any text, including none, and every other character for
// itself.
func fits(pattern, topic string) bool {
	before, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == topic
	}
	topic, found := strings.CutPrefix(topic, before)
	for found {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(topic, part)
		}
		_, topic, found = strings.Cut(topic, part) // the first place leaves the most for the parts after it
		rest = more
	}
	return false
}
