// Package pattern implements a destination's patterns of topics, in Go and in SQL. In a pattern * stands for any text,
// including none, and every other character for itself. A pattern that begins with ! excludes topics.
package pattern

import (
	"slices"
	"strings"
)

// Takes reports whether patterns take a topic: one of them matches, and none that begins with ! does. An empty list, or
// one with only exclusions, takes every topic that is not excluded.
func Takes(patterns []string, topic string) bool {
	included, excluded := split(patterns)
	return anyFit(included, topic) && !anyFit(excluded, topic)
}

// fits reports whether a topic matches a pattern, in which * stands for any text, including none, and every other
// character for itself.
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

// TakesNone reports whether patterns are known to take no topic that earlier patterns leave: each topic is taken by one
// of the earlier destinations, or excluded by the patterns themselves.
func TakesNone(patterns []string, earlier [][]string) bool {
	own, excluded := split(patterns)
	for _, pattern := range own {
		covers := func(before []string) bool {
			included, except := split(before)
			return anyFit(included, pattern) &&
				!slices.ContainsFunc(except, func(e string) bool { return !anyFit(excluded, e) })
		}
		if !anyFit(excluded, pattern) && !slices.ContainsFunc(earlier, covers) {
			return false
		}
	}
	return true
}

// split returns the patterns of what is taken, at least one, and of what is excluded.
func split(patterns []string) (included, excluded []string) {
	for _, pattern := range patterns {
		if left, is := strings.CutPrefix(pattern, "!"); is {
			excluded = append(excluded, left)
		} else {
			included = append(included, pattern)
		}
	}
	if included == nil {
		included = []string{"*"}
	}
	return included, excluded
}

// anyFit reports whether a topic matches one of the patterns. In place of the topic there may be a pattern: its * is
// matched by a * only, and so is each text in its place, so that whatever it matches, one of the patterns does.
func anyFit(patterns []string, other string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return fits(pattern, other) })
}

// MayMeet reports whether a topic may be taken by both lists of patterns, by the beginnings of what they include.
func MayMeet(a, b []string) bool {
	left, _ := split(a)
	right, _ := split(b)
	for _, x := range left {
		for _, y := range right {
			x, _, _ := strings.Cut(x, "*")
			y, _, _ := strings.Cut(y, "*")
			if n := min(len(x), len(y)); x[:n] == y[:n] {
				return true
			}
		}
	}
	return false
}
