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
	for _, s := range c.scopes() {
		for _, o := range s.all {
			for _, prefix := range s.prefixes {
				if prefix == s.prefixes[0] || !o.named {
					known[prefix+o.key] = true
				}
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
	plain := strings.TrimSuffix(name, fileSuffix)
	listed := !strings.HasPrefix(name, Prefix+"DESTINATION_")
	for _, d := range c.Destinations {
		key, own := strings.CutPrefix(plain, d.scope.prefixes[0])
		if own = own && d.scope != c.scope; own && known[Prefix+key] {
			return "this setting is the same for all destinations, set " + Prefix + key
		}
		listed = listed || own
	}
	switch near := nearest(plain, known); {
	case !listed:
		return "it names a destination that OUTBOX_DESTINATIONS does not list"
	case near != "":
		return "did you mean " + near + strings.TrimPrefix(name, plain) + "?"
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

// nearest returns the name that differs in the fewest letters between a common beginning and a common end, if these are
// at most half of it, or "".
func nearest(name string, known map[string]bool) (near string) {
	fewest := (len(name)-len(Prefix))/2 + 1
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		same, shorter := 0, min(len(name), len(candidate))
		for same < shorter && name[same] == candidate[same] {
			same++
		}
		for end := 1; same < shorter && name[len(name)-end] == candidate[len(candidate)-end]; end++ {
			same++
		}
		if letters := max(len(name), len(candidate)) - same; letters < fewest {
			near, fewest = candidate, letters
		}
	}
	return near
}
