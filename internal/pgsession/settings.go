package pgsession

import (
	_ "embed" // for the list
	"slices"
	"strings"
)

//go:embed settings.txt
var list string

// A setting is what the relay does about a setting of its sessions.
type setting struct {
	name, value string
	given       bool // the relay gives the value, otherwise the session keeps its own
}

func (s setting) named(name string) bool { return strings.EqualFold(s.name, name) } // as PostgreSQL compares names

// settings returns what was decided about each setting.
func settings() (all []setting) {
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if name, value, given := strings.Cut(line, "="); given && line[0] != '#' {
			all = append(all, setting{strings.TrimSpace(name), strings.TrimSpace(value), true})
		} else if !strings.HasPrefix(line, "#") {
			for _, name := range strings.Fields(line) {
				all = append(all, setting{name: name})
			}
		}
	}
	return all
}

// Decided reports whether it was decided what the relay does about a setting of a session. Settings of extensions,
// which contain a dot, concern only what the extension does in the table's triggers.
func Decided(name string) bool {
	return strings.Contains(name, ".") || slices.ContainsFunc(settings(), func(s setting) bool { return s.named(name) })
}

// given returns the settings that the relay gives to its sessions.
func given() (names, values []string) {
	for _, s := range settings() {
		if s.given {
			names, values = append(names, s.name), append(values, s.value)
		}
	}
	return names, values
}
