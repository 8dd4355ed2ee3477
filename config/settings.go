package config

import (
	"reflect"
	"strings"
)

// A Setting describes one variable, from the struct tags of [Config] and [Destination] and from descriptions.go.
type Setting struct {
	Name        string // the variable, such as OUTBOX_BATCH_SIZE
	Default     string // text of the default, empty if there is none
	Unset       string // the rule if there is no default, in words: "required", "the above"; may be empty
	Description string // one line
	Detail      string // sentences to read after the description; may be empty
	Secret      bool   // never printed; of a URL only the password is left out
	// PerDestination says that OUTBOX_DESTINATION_NAME_… may be given as well, and takes precedence for that destination.
	PerDestination bool

	key       string   // Name without its prefix
	named     bool     // only for a named destination
	live      bool     // read again from its file while the relay runs
	emptyOK   bool     // the empty string is a value
	secret    string   // how to redact: "database", "broker" or "true"
	min, max  string   // bounds in the setting's own form
	oneOf     []string // the only allowed values
	scheme    string   // scheme of the URLs to which the setting applies: kafka, nats, amqp, or tls for those with TLS
	exclusive string   // settings of one group are inherited together or not at all
}

// destinationPattern stands for the prefix of a destination's own settings in texts.
const destinationPattern = Prefix + "DESTINATION_<NAME>_"

// Settings lists every setting in the order of the documentation.
func Settings() []Setting { return settingsIn(reflect.TypeFor[Config](), false) }

func settingsIn(t reflect.Type, perDestination bool) []Setting {
	var list []Setting
	for field := range t.Fields() {
		if field.Tag.Get("envconfig") != "" {
			setting := settingOf(field)
			setting.PerDestination = perDestination
			list = append(list, setting)
		}
		switch {
		case field.Type == reflect.TypeFor[[]Destination]():
			list = append(list, settingsIn(field.Type.Elem(), true)...)
		case field.Tag.Get("envconfig") == "" && field.Type.Kind() == reflect.Struct:
			list = append(list, settingsIn(field.Type, perDestination)...)
		}
	}
	return list
}

func settingOf(field reflect.StructField) Setting {
	tag := field.Tag
	s := Setting{
		key:       tag.Get("envconfig"),
		Default:   tag.Get("default"),
		Unset:     tag.Get("unset"),
		Secret:    tag.Get("secret") != "",
		named:     tag.Get("only") == "destination",
		live:      field.Type == reflect.TypeFor[Switch](),
		emptyOK:   tag.Get("empty") == "true",
		secret:    tag.Get("secret"),
		min:       tag.Get("min"),
		max:       tag.Get("max"),
		scheme:    tag.Get("scheme"),
		exclusive: tag.Get("group"),
	}
	if list := tag.Get("oneof"); list != "" {
		s.oneOf = strings.Split(list, ",")
	}
	s.Name = Prefix + s.key
	if s.named {
		s.Name = destinationPattern + s.key
	}
	s.Description, s.Detail, _ = strings.Cut(descriptions[strings.TrimPrefix(s.Name, Prefix)], "\n")
	return s
}
