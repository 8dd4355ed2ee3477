package config

import (
	"errors"
	"strconv"
	"strings"
)

// An origin is a setting with its text and where the text came from.
type origin struct {
	Setting
	variable  string // without _FILE
	text      string
	path      string // path of the file, if it came from one
	given     bool   // found in the environment; otherwise the text is the default
	inherited bool   // found under another name than the setting's own
	broken    bool   // a problem was reported; the default is in force meanwhile
}

// lookup finds a setting in a variable, as a value or as a file; the origin is nil if it is not set. The error
// continues the sentence that begins with the variable's name.
func (l *loader) lookup(variable string, setting Setting) (o *origin, err error) {
	text, set := l.env[variable]
	o = &origin{Setting: setting, variable: variable, given: true}
	o.text, o.path = withoutMarks(text), l.env[variable+fileSuffix]
	set = set && (o.text != "" || setting.tag.Get("empty") != "")
	switch {
	case !set && o.path == "":
		return nil, nil
	case o.path == "":
	case set:
		o.path, err = "", errors.New("is set twice, also as "+variable+fileSuffix+"; remove one of them")
	case setting.tag.Get("live") != "":
		on, _ := NewSwitch(o.path).Read() // problems of the file are reported while the relay runs
		o.text = strconv.FormatBool(on)
	default:
		if o.text, err = readFile(o.path); err != nil {
			o.variable, o.text, o.path = variable+fileSuffix, o.path, ""
		}
	}
	return o, err
}

// A Value is a setting that is in effect.
type Value struct {
	Name   string // the variable; for a named destination the most specific one
	Text   string // redacted if secret; otherwise as given, not normalised
	Source string // "default", "environment", "file PATH", or the variable it was inherited from
}

// scopes returns that of the relay's own settings, then those of the named destinations.
func (c *Config) scopes() []*scope {
	scopes := []*scope{c.scope}
	for _, d := range c.Destinations {
		if d.scope != c.scope {
			scopes = append(scopes, d.scope)
		}
	}
	return scopes
}

// Values returns every setting in effect: the relay's own, then those of the destinations.
func (c *Config) Values() (values []Value) {
	for _, s := range c.scopes() {
		for _, o := range s.all {
			values = append(values, Value{Name: s.prefixes[0] + o.key, Text: o.redact(o.text), Source: o.source()})
		}
	}
	return values
}

// source describes where the value came from.
func (o *origin) source() string {
	switch {
	case !o.given:
		return "default"
	case o.inherited && o.path != "":
		return o.variable + fileSuffix + ", file " + o.path
	case o.inherited:
		return o.variable
	case o.path != "":
		return "file " + o.path
	default:
		return "environment"
	}
}

// nameOf returns the name under which a setting was found, with _FILE if it was given as a file. A setting that was not
// given has its most specific name, also with _FILE.
func (s *scope) nameOf(key string) string {
	o := s.at(strings.TrimSuffix(key, fileSuffix))
	switch {
	case o.key == "":
		return ""
	case !o.given, o.inherited && s.name == "": // the direct URL is inherited from the other one
		return s.prefixes[0] + key
	case o.path != "":
		return o.variable + fileSuffix
	default:
		return o.variable
	}
}

// Variable returns the user's name of a setting of the relay, for messages. The key is the name without [Prefix], such
// as TABLE. A setting that was given as a file has the name with _FILE; a key with _FILE prefers this form for a
// setting that was not given.
func (c *Config) Variable(key string) string { return c.scope.nameOf(key) }

// Variable is [Config.Variable] for a setting of the destination: a setting that was given for this destination alone
// has the name with its prefix.
func (d *Destination) Variable(key string) string { return d.scope.nameOf(key) }

// Given reports whether a setting was given for the destination or for all of them. For the key see
// [Config.Variable].
func (d *Destination) Given(key string) bool { return d.scope.at(key).given }
