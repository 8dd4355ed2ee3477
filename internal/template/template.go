// Package template parses the templates for a row's topic and exchange on the broker.
package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Kind says what a part of a template stands for.
type Kind uint8

const (
	Text    Kind = iota // Name itself
	Topic               // the row's own topic
	Column              // the column Name
	Header              // the row's header Name
	Payload             // the value at the path Name of a JSON payload; dots separate the steps
)

// A Part is a section of fixed text, or a placeholder in braces.
type Part struct {
	Kind   Kind
	Name   string
	Braces string // the placeholder as it is written
}

const (
	topic   = "topic"
	header  = "header."
	payload = "payload."
	forms   = "write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}"
)

// Parse parses a template such as "{topic}" or "shop.{tenant}.{topic}"; {{ and }} stand for braces. Its errors continue
// a sentence that names the template.
func Parse(text string) ([]Part, error) {
	var parts []Part
	var fixed strings.Builder
	flush := func() {
		if fixed.Len() > 0 {
			parts = append(parts, Part{Kind: Text, Name: fixed.String()})
			fixed.Reset()
		}
	}
	for rest := text; ; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			fixed.WriteString(rest)
			flush()
			return parts, nil
		}
		brace := rest[at : at+1]
		fixed.WriteString(rest[:at])
		rest = rest[at+1:]
		if strings.HasPrefix(rest, brace) {
			fixed.WriteString(brace)
			rest = rest[1:]
			continue
		}
		if brace == "}" {
			return nil, errors.New("has a } without a {; " + forms + ", or }} for a brace")
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || strings.Contains(name, "{") {
			return nil, errors.New("has a { without a }; " + forms + ", or {{ for a brace")
		}
		part, err := placeholder(name)
		if err != nil {
			return nil, err
		}
		part.Braces = "{" + name + "}"
		flush()
		parts, rest = append(parts, part), after
	}
}

// placeholder returns the part for a pair of braces.
func placeholder(name string) (Part, error) {
	if strings.TrimSpace(name) == "" {
		return Part{}, errors.New("has an empty {}; " + forms)
	}
	if name == topic {
		return Part{Kind: Topic}, nil
	}
	if of, is := strings.CutPrefix(name, header); is {
		if of == "" {
			return Part{}, errors.New("names no header in {header.}; write {header.NAME}")
		}
		return Part{Kind: Header, Name: of}, nil
	}
	if path, is := strings.CutPrefix(name, payload); is {
		if slices.Contains(strings.Split(path, "."), "") {
			return Part{}, fmt.Errorf("has an empty step in the path of {%s}; write {payload.a} or {payload.a.b}", name)
		}
		return Part{Kind: Payload, Name: path}, nil
	}
	return Part{Kind: Column, Name: name}, nil
}
