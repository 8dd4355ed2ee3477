// Package rowkey says where texts of rows come from: their ordering keys, and what templates are filled with.
package rowkey

import (
	"errors"
	"strings"
)

// A Source says where a text of a row comes from. As the source of ordering keys, the zero Source takes the column key
// if the table has one.
type Source struct {
	Kind Kind
	Name string // name of the column or header, or the dot-separated path in the payload
}

// A Kind is the first part of a Source's text form.
type Kind string

// The kinds of sources.
const (
	Default Kind = ""        // the column "key" (or the column mapped to it), if there is one
	Column  Kind = "column"  // the column Name
	Header  Kind = "header"  // the row's header Name
	Payload Kind = "payload" // the value at the dot-separated path Name of a JSON payload
	Topic   Kind = "topic"   // the row's topic: order per topic
	None    Kind = "none"    // no row has a key
	Time    Kind = "time"    // the time in the column Name in milliseconds since 1970; not for keys
)

var errKey = errors.New("is not a source of a key; write column:NAME, header:NAME, payload:a.b, topic or none")

// UnmarshalText reads the text form: column:NAME, header:NAME, payload:a.b, topic or none.
func (k *Source) UnmarshalText(text []byte) error {
	kind, name, named := strings.Cut(string(text), ":")
	*k = Source{Kind: Kind(kind), Name: name}
	switch k.Kind {
	case Topic, None:
		if named {
			return errKey
		}
	case Column, Header:
		if name == "" {
			return errKey
		}
	case Payload:
		for part := range strings.SplitSeq(name, ".") {
			if part == "" {
				return errors.New("has an empty step in its path; write payload:a or payload:a.b")
			}
		}
	default:
		return errKey
	}
	return nil
}
