package config

import (
	"reflect"
	"regexp"
	"strings"
)

// defaultDestination is the name of the only destination if OUTBOX_DESTINATIONS is not given.
const defaultDestination = "default"

// reservedDestination is the name under which the relay counts and reports rows that no destination takes.
const reservedDestination = "none"

var destinationName = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// loadDestinations fills cfg.Destinations and returns the scopes of the named destinations, in the same order. It returns none
// if there is only the default destination, whose settings are then global's.
func (l *loader) loadDestinations(cfg *Config, global *scope) []*scope {
	field, _ := reflect.TypeFor[Config]().FieldByName("Destinations")
	var names []string
	global.load(settingOf(field), reflect.ValueOf(&names).Elem())

	var named []*scope
	prefixes := map[string]string{}
	for _, name := range names {
		prefix := Prefix + "DESTINATION_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
		switch {
		case !destinationName.MatchString(name):
			global.bad("DESTINATIONS",
				"contains the invalid name %q; write lower-case letters, digits and single - or _, starting with a letter", name)
			continue
		case name == reservedDestination:
			global.bad("DESTINATIONS", "contains the name %s, which stands for rows that no destination takes; write another name", name)
			continue
		case prefixes[prefix] != "":
			global.bad("DESTINATIONS", "contains %s and %s, whose variables would have the same names", prefixes[prefix], name)
			continue
		}
		prefixes[prefix] = name
		s := l.scope(name, prefix, Prefix)
		d := Destination{Name: name}
		s.loadAll(reflect.ValueOf(&d).Elem())
		cfg.Destinations = append(cfg.Destinations, d)
		named = append(named, s)
	}
	if len(named) == 0 {
		d := Destination{Name: defaultDestination, Required: true}
		global.loadAll(reflect.ValueOf(&d).Elem())
		cfg.Destinations = []Destination{d}
	}
	return named
}
