package config

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"
)

// A Setting describes one variable, from the struct tags of [Config] and [Destination] and from settings.txt.
type Setting struct {
	Name        string // the variable, such as OUTBOX_BATCH_SIZE
	Default     string // text of the default, empty if there is none
	Unset       string // the rule if there is no default, in words: "required", "the above"; may be empty
	Description string // one line
	Detail      string // sentences to read after the description; may be empty
	Secret      bool   // never printed; of a URL only the password is left out
	// PerDestination says that OUTBOX_DESTINATION_NAME_… may be given as well, and takes precedence for that
	// destination.
	PerDestination bool

	key   string            // Name without its prefix
	path  []int             // of the field, in [Config] or, with PerDestination, in [Destination]
	group string            // name of its [Group]
	named bool              // only for a named destination
	live  bool              // read again from its file while the relay runs
	tag   reflect.StructTag // of the field
	// scheme of the URLs to which the setting applies: kafka, nats, amqp, or tls for those with TLS
	scheme    string
	with      string // KEY=VALUE of another setting without which it has no effect, empty for none
	exclusive string // settings of one group are inherited together or not at all
}

// A Group is a part of the settings under a heading of its own, in the help text and in docs/settings.md.
type Group struct {
	Name     string // as in "help settings kafka"
	Title    string
	Settings []Setting
}

// destinationPattern stands for the prefix of a destination's own settings in texts.
const destinationPattern = Prefix + "DESTINATION_<NAME>_"

// meanings is the text from which the descriptions and the groups are read.
//
//go:embed settings.txt
var meanings string

// Settings lists every setting in the order of the structs.
func Settings() []Setting {
	_, texts := readMeanings()
	return settingsIn(reflect.TypeFor[Config](), Setting{}, texts)
}

// Groups divides the settings by what they are about. Each setting is in exactly one group, and a group keeps the order
// of [Settings].
func Groups() []Group {
	groups, _ := readMeanings()
	for _, s := range Settings() {
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == s.group })
		groups[i].Settings = append(groups[i].Settings, s)
	}
	return groups
}

// readMeanings returns the groups, and for each variable its group and its texts.
func readMeanings() (groups []Group, settings map[string]Setting) {
	settings = map[string]Setting{}
	_, parts, _ := strings.Cut(meanings, "\n\n") // the first part says what the file is
	for part := range strings.SplitSeq(strings.TrimSpace(parts), "\n\n") {
		name, text, _ := strings.Cut(part, "\n")
		if heading, is := strings.CutPrefix(name, "# "); is {
			name, title, _ := strings.Cut(heading, ": ")
			groups = append(groups, Group{Name: name, Title: title})
			continue
		}
		description, detail, _ := strings.Cut(text, "\n")
		settings[Prefix+name] = Setting{
			Description: description, Detail: strings.ReplaceAll(detail, "\n", " "), group: groups[len(groups)-1].Name,
		}
	}
	return groups, settings
}

// settingsIn lists the settings of a struct and of the structs in it. outer has the path to it, and what holds for all
// of its settings: a common beginning of the names, whether destinations have their own values, and some of the tags.
func settingsIn(t reflect.Type, outer Setting, texts map[string]Setting) (list []Setting) {
	for field := range t.Fields() {
		s := settingOf(field, outer)
		switch {
		case field.Tag.Get("envconfig") != "":
			s.Name = Prefix + s.key
			if s.named {
				s.Name = destinationPattern + s.key
			}
			text := texts[s.Name]
			s.Description, s.Detail, s.group = text.Description, text.Detail, text.group
			list = append(list, s)
		case field.Type.Kind() == reflect.Struct && field.IsExported():
			list = append(list, settingsIn(field.Type, s, texts)...)
		}
		if field.Type == reflect.TypeFor[[]Destination]() {
			list = append(list, settingsIn(field.Type.Elem(), Setting{PerDestination: true}, texts)...)
		}
	}
	return list
}

// settingOf reads the tags of a field.
func settingOf(field reflect.StructField, outer Setting) Setting {
	tag := field.Tag
	return Setting{
		key:            outer.key + tag.Get("envconfig") + tag.Get("prefix"),
		path:           slices.Concat(outer.path, field.Index),
		PerDestination: outer.PerDestination,
		Default:        tag.Get("default"),
		Unset:          tag.Get("unset"),
		Secret:         tag.Get("secret") != "",
		named:          tag.Get("only") == "destination",
		live:           field.Type == reflect.TypeFor[Switch](),
		tag:            tag,
		scheme:         outer.scheme + tag.Get("scheme"),
		with:           outer.with + tag.Get("with"),
		exclusive:      outer.exclusive + tag.Get("group"),
	}
}
