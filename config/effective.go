package config

// A Value is a setting that is in effect.
type Value struct {
	Name   string // the variable; for a named destination the most specific one
	Text   string // redacted if secret; otherwise as given, not normalised
	Source string // "default", "environment", "file PATH", or the variable it was inherited from
}

// Values returns every setting in effect, in the order of the documentation; the settings of named destinations come last.
func (c *Config) Values() []Value { return c.values }

func effective(global *scope, named []*scope) []Value {
	var values []Value
	for _, setting := range Settings() {
		if setting.named || setting.PerDestination && len(named) > 0 {
			continue
		}
		values = append(values, global.value(setting))
	}
	for _, s := range named {
		for _, setting := range s.settings {
			values = append(values, s.value(setting))
		}
	}
	return values
}

func (s *scope) value(setting Setting) Value {
	o := s.origins[setting.key]
	v := Value{Name: s.prefixes[0] + setting.key, Text: o.text, Source: o.source()}
	if setting.Secret {
		v.Text = setting.redact(o.text)
	}
	return v
}
