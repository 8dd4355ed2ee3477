package template

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	type part struct {
		Kind
		name string
	}
	for text, want := range map[string][]part{
		"":                    nil,
		"{topic}":             {{Topic, ""}},
		"shop.{tenant}":       {{Text, "shop."}, {Column, "tenant"}},
		"{a}{b}":              {{Column, "a"}, {Column, "b"}},
		"{header.x-tenant}":   {{Header, "x-tenant"}},
		"{header.a.b}":        {{Header, "a.b"}},
		"{payload.a}":         {{Payload, "a"}},
		"v.{payload.a.0.é}.x": {{Text, "v."}, {Payload, "a.0.é"}, {Text, ".x"}},
		"{payload}{header}":   {{Column, "payload"}, {Column, "header"}},
		"{Payload.a}":         {{Column, "Payload.a"}},
		"{{{topic}}}":         {{Text, "{"}, {Topic, ""}, {Text, "}"}},
		"{{payload.a}}":       {{Text, "{payload.a}"}},
	} {
		parts, err := Parse(text)
		var got []part
		for _, p := range parts {
			got = append(got, part{p.Kind, p.Name})
			if (p.Kind == Text) != (p.Braces == "") || !strings.Contains(text, p.Braces) {
				t.Errorf("%q has %q", text, p.Braces)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q gives %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestParseProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{topic":           "has a { without a }; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ for a brace",
		"{a{b}}":           "has a { without a }; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ for a brace",
		"a}":               "has a } without a {; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or }} for a brace",
		"{{a}":             "has a } without a {; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or }} for a brace",
		"{ }":              "has an empty {}; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}",
		"{header.}":        "names no header in {header.}; write {header.NAME}",
		"{payload.}":       "has an empty step in the path of {payload.}; write {payload.a} or {payload.a.b}",
		"{payload.a..b}":   "has an empty step in the path of {payload.a..b}; write {payload.a} or {payload.a.b}",
		"x{payload.a.}{b}": "has an empty step in the path of {payload.a.}; write {payload.a} or {payload.a.b}",
	} {
		if parts, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%q gives %+v, %v, want %s", text, parts, err, want)
		}
	}
}
