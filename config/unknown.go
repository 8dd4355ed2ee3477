package config

import (
	"maps"
	"slices"
	"strings"
)

// refuseUnknown records a problem for each variable with the prefix OUTBOX_ that is not a setting. Values are not shown: the
// variable may be a misspelt secret.
func (l *loader) refuseUnknown(named []*scope) {
	known := map[string]bool{}
	for _, setting := range Settings() {
		if !setting.named {
			known[Prefix+setting.key] = true
		}
		for _, s := range named {
			if setting.PerDestination {
				known[s.prefixes[0]+setting.key] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		switch {
		case !strings.HasPrefix(name, Prefix), l.env[name] == "", known[name], isServiceLink(name),
			known[strings.TrimSuffix(name, fileSuffix)]:
			continue
		}
		l.add(Problem{Variable: name, Text: "is an unknown variable; " + l.advice(name, known, named)})
	}
}

func (l *loader) advice(name string, known map[string]bool, named []*scope) string {
	if strings.HasPrefix(name, Prefix+"DESTINATION_") &&
		!slices.ContainsFunc(named, func(s *scope) bool { return strings.HasPrefix(name, s.prefixes[0]) }) {
		return "it names a destination that OUTBOX_DESTINATIONS does not list"
	}
	for _, s := range named {
		common := Prefix + strings.TrimPrefix(name, s.prefixes[0])
		if strings.HasPrefix(name, s.prefixes[0]) && (known[common] || known[strings.TrimSuffix(common, fileSuffix)]) {
			return "this setting is the same for all destinations, set " + common
		}
	}
	if near := nearest(name, known); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return "remove it, or see outbox-relay help settings"
}

// isServiceLink reports whether Kubernetes sets a variable of this name for a Service called outbox… in the same namespace, in
// the manner of Docker's links.
func isServiceLink(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_SERVICE_PORT") ||
		strings.Contains(name, "_SERVICE_PORT_") || strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}

// nearest returns at most three names that differ by a few letters or contain all of the name's words.
func nearest(name string, known map[string]bool) []string {
	suffix := ""
	if plain, ok := strings.CutSuffix(name, fileSuffix); ok {
		name, suffix = plain, fileSuffix
	}
	own := strings.TrimPrefix(name, Prefix)
	best := 1 + max(2, len(own)/4)
	var near, words []string
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		switch d := distance(name, candidate); {
		case d < best:
			best, near = d, []string{candidate + suffix}
		case d == best && len(near) > 0:
			near = append(near, candidate+suffix)
		}
		if hasWords(strings.TrimPrefix(candidate, Prefix), own) {
			words = append(words, candidate+suffix)
		}
	}
	if len(near) == 0 {
		near = words
	}
	return near[:min(len(near), 3)]
}

func hasWords(candidate, name string) bool {
	words := strings.Split(candidate, "_")
	for word := range strings.SplitSeq(name, "_") {
		if !slices.Contains(words, word) {
			return false
		}
	}
	return true
}

// distance is the number of letters to insert, remove or change between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			row[j+1] = min(above, row[j]) + 1
			if a[i] == b[j] {
				row[j+1] = min(row[j+1], diagonal)
			} else {
				row[j+1] = min(row[j+1], diagonal+1)
			}
			diagonal = above
		}
	}
	return row[len(b)]
}
