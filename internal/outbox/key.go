package outbox

import (
	"errors"
	"strings"
)

// A Key says where a row's ordering key comes from. The zero Key takes the column key if the table has one.
type Key struct {
	Kind KeyKind
	Name string // of the column or header, or the dotted path in the payload
}

// A KeyKind is the first part of a Key's text form.
type KeyKind string

const (
	KeyDefault    KeyKind = ""        // the column "key" (or what OUTBOX_COLUMNS maps it to), if there is one
	KeyColumn  KeyKind = "column"  // the column Name
	KeyHeader  KeyKind = "header"  // the row's header Name
	KeyPayload KeyKind = "payload" // the value at the dotted path Name of a JSON payload
	KeyTopic   KeyKind = "topic"   // the row's topic: order per topic
	KeyNone    KeyKind = "none"    // no row has a key
)

var errKey = errors.New("is no source of a key; write column:NAME, header:NAME, payload:a.b, topic or none")

// UnmarshalText reads the text form: column:NAME, header:NAME, payload:a.b, topic or none.
func (k *Key) UnmarshalText(text []byte) error {
	kind, name, named := strings.Cut(string(text), ":")
	*k = Key{Kind: KeyKind(kind), Name: name}
	switch k.Kind {
	case KeyTopic, KeyNone:
		if named {
			return errKey
		}
	case KeyColumn, KeyHeader:
		if name == "" {
			return errKey
		}
	case KeyPayload:
		for part := range strings.SplitSeq(name, ".") {
			if part == "" {
				return errors.New("has an empty part in its path; write payload:a or payload:a.b")
			}
		}
	default:
		return errKey
	}
	return nil
}

// String returns the text form.
func (k Key) String() string {
	if k.Name == "" {
		return string(k.Kind)
	}
	return string(k.Kind) + ":" + k.Name
}
