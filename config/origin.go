package config

import (
	"errors"
	"log/slog"
	"strconv"
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
		file := Switch{path: o.path} // problems of the file are reported while the relay runs
		o.text = strconv.FormatBool(file.On(slog.New(slog.DiscardHandler)))
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
