package config

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/relay"
)

// A Setting describes one variable, from the struct tags of [Config] and [Destination].
type Setting struct {
	Name    string // the variable, such as OUTBOX_BATCH_SIZE
	Default string // text of the default, empty if there is none
	Secret  bool   // never printed; of a URL only the password is left out
	// PerDestination says that OUTBOX_DESTINATION_NAME_… may be given as well, and takes precedence for that
	// destination.
	PerDestination bool

	key   string            // Name without its prefix
	field string            // its name in the struct
	path  []int             // of the field, in [Config] or, with PerDestination, in [Destination]
	named bool              // only for a named destination
	tag   reflect.StructTag // of the field and of the structs that it is in
}

// destinationPattern stands for the prefix of a destination's own settings in texts.
const destinationPattern = Prefix + "DESTINATION_<NAME>_"

// meanings is the help text of the settings, in groups.
//
//go:embed settings.txt
var meanings string

// Help gives the name and the help text of each group of settings. The text begins with a line for the title.
func Help(yield func(group, text string) bool) {
	for i, part := range strings.Split(meanings, "\n# ") {
		if group, text, _ := strings.Cut(part, ": "); i > 0 && !yield(group, text) { // the first part is about the file
			return
		}
	}
}

// Settings lists every setting in the order of the structs.
func Settings() []Setting { return settingsIn(reflect.TypeFor[Config](), Setting{}) }

// settingsIn lists the settings of a struct and of the structs in it. outer has the path to it, and what holds for all
// of its settings: a common beginning of the names, whether destinations have their own values, and tags.
func settingsIn(t reflect.Type, outer Setting) (list []Setting) {
	for field := range t.Fields() {
		s, tag := outer, field.Tag
		s.key += tag.Get("envconfig") + tag.Get("prefix")
		s.field, s.path = field.Name, slices.Concat(outer.path, field.Index)
		s.tag = tag + " " + outer.tag
		switch {
		case tag.Get("envconfig") != "":
			s.Default, s.Secret = tag.Get("default"), tag.Get("secret") != ""
			s.named = tag.Get("only") != ""
			if s.Name = Prefix + s.key; s.named {
				s.Name = destinationPattern + s.key
			}
			list = append(list, s)
		case field.Type == reflect.TypeFor[[]Destination]():
			list = append(list, settingsIn(field.Type.Elem(), Setting{PerDestination: true})...)
		case field.Type == reflect.TypeFor[*relay.Destination]():
			list = append(list, settingsIn(field.Type.Elem(), s)...)
		case field.Type.Kind() == reflect.Struct && field.IsExported():
			list = append(list, settingsIn(field.Type, s)...)
		}
	}
	return list
}
