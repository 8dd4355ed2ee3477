package config

import (
	"maps"
	"slices"
	"strings"
)

// refuseUnknown records a problem for each variable with the prefix OUTBOX_ that is not a setting. Values are not
// shown: the variable may be a misspelt secret.
func (c *Config) refuseUnknown() {
	l, known := c.scope.loader, map[string]bool{}
	for _, setting := range l.settings {
		if !setting.named {
			known[setting.Name] = true
		}
		for _, d := range c.Destinations {
			if setting.PerDestination && d.scope != c.scope {
				known[d.scope.prefixes[0]+setting.key] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		ours := strings.HasPrefix(name, Prefix) && l.env[name] != "" && !isServiceLink(name)
		if ours && !known[name] && !known[strings.TrimSuffix(name, fileSuffix)] {
			l.add(name, nil, "is an unknown variable; "+c.advice(name, known))
		}
	}
}

// advice says what may have been meant by a variable.
func (c *Config) advice(name string, known map[string]bool) string {
	listed := false // the name begins as those of a destination that exists
	for _, d := range c.Destinations {
		common, own := strings.CutPrefix(name, d.scope.prefixes[0])
		own = own && d.scope != c.scope
		listed = listed || own
		if common = Prefix + common; own && (known[common] || known[strings.TrimSuffix(common, fileSuffix)]) {
			return "this setting is the same for all destinations, set " + common
		}
	}
	if !listed && strings.HasPrefix(name, Prefix+"DESTINATION_") {
		return "it names a destination that OUTBOX_DESTINATIONS does not list"
	}
	if near := nearest(name, known); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return "remove it, or see outbox-relay help settings"
}

// isServiceLink reports whether Kubernetes sets a variable of this name for a Service called outbox… in the same
// namespace, in the manner of Docker's links: OUTBOX_SERVICE_HOST, OUTBOX_SERVICE_PORT_METRICS, OUTBOX_PORT_9630_TCP.
// No setting may have such a name; a test looks.
func isServiceLink(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_PORT") || strings.Contains(name,
		"_PORT_")
}

// nearest returns at most three names: those that differ from the name in the fewest letters at one place, if these are
// less than half of it.
func nearest(name string, known map[string]bool) (near []string) {
	plain := strings.TrimSuffix(name, fileSuffix)
	fewest := (len(plain) - len(Prefix)) / 2
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		letters := different(plain, candidate)
		if letters < fewest {
			near, fewest = nil, letters
		}
		if letters == fewest {
			near = append(near, candidate+strings.TrimPrefix(name, plain))
		}
	}
	return near[:min(len(near), 3)]
}

// different returns how many letters of the longer name are between a common beginning and a common end.
func different(a, b string) int {
	shorter, same := min(len(a), len(b)), 0
	for same < shorter && a[same] == b[same] {
		same++
	}
	for end := 1; same < shorter && a[len(a)-end] == b[len(b)-end]; end++ {
		same++
	}
	return max(len(a), len(b)) - same
}
