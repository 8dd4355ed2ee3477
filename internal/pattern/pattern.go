// Package pattern is the meaning of a destination's patterns of topics, in Go and in SQL. In a pattern * stands for any text, none
// included, and all else for itself; what begins with ! leaves topics out.
package pattern

import "strings"

// Takes reports whether patterns take a topic: one of them fits and none that begins with ! does. No pattern, or
// only such as begin with !, take every other topic.
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

// fits reports whether a topic is what the pattern says, in which * stands for any text, none included, and all else for itself.
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
		_, topic, found = strings.Cut(topic, part) // the first place leaves most to the parts behind it
		rest = more
	}
	return false
}
