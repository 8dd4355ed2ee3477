package template

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Part{
		"":                    nil,
		"{topic}":             {{Kind: Topic}},
		"shop.{tenant}":       {{Text, "shop."}, {Column, "tenant"}},
		"{a}{b}":              {{Column, "a"}, {Column, "b"}},
		"{header.x-tenant}":   {{Header, "x-tenant"}},
		"{header.a.b}":        {{Header, "a.b"}},
		"{payload.a}":         {{Payload, "a"}},
		"v.{payload.a.0.é}.x": {{Text, "v."}, {Payload, "a.0.é"}, {Text, ".x"}},
		"{payload}{header}":   {{Column, "payload"}, {Column, "header"}},
		"{Payload.a}":         {{Column, "Payload.a"}},
		"{{{topic}}}":         {{Text, "{"}, {Kind: Topic}, {Text, "}"}},
		"{{payload.a}}":       {{Text, "{payload.a}"}},
	} {
		got, err := Parse(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q gives %+v, %v, want %+v", text, got, err, want)
		}
		var again strings.Builder
		for _, part := range got {
			again.WriteString(part.String())
		}
		if again.String() != text {
			t.Errorf("%q is written again as %q", text, again.String())
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
