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
			l.add(name, nil, "is an unknown variable; see outbox-relay help settings, where * marks what may be set "+
				"for one of the destinations that OUTBOX_DESTINATIONS lists")
		}
	}
}

// isServiceLink reports whether Kubernetes sets a variable of this name for a Service called outbox… in the same
// namespace, in the manner of Docker's links: OUTBOX_SERVICE_HOST, OUTBOX_SERVICE_PORT_METRICS, OUTBOX_PORT_9630_TCP.
// No setting may have such a name; a test looks.
func isServiceLink(name string) bool {
	return strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_PORT") || strings.Contains(name,
		"_PORT_")
}
