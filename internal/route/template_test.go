package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestTemplate(t *testing.T) {
	row := &outbox.Row{Message: publisher.Message{Topic: "orders"}, Extra: []string{"eu", "7", ""}, Nulls: 0b100}
	for text, want := range map[string]string{
		"": "orders", "{topic}": "orders", "shop.{topic}": "shop.orders", "{region}-{topic}.v{version}": "eu-orders.v7",
		"fixed":     "fixed",
		"{{topic}}": "{topic}", "a{{b": "a{b", "a}}b": "a}b", "{{{topic}}}": "{orders}", "{{{{": "{{", "{region}}}": "eu}",
		"{{}}{region}": "{}eu",
	} {
		extra := Extra{All: columns("region", "version")}
		template, err := ParseTemplate(text, &extra)
		if err != nil || !slices.Equal(extra.All, columns("region", "version")) {
			t.Fatalf("%s: %q, %v", text, extra.All, err)
		}
		if got, err := template.Text(row); got != want || err != nil {
			t.Errorf("%s gives %q, %v, want %q", text, got, err, want)
		}
	}
	extra := Extra{All: columns("region", "version")}
	template, err := ParseTemplate("{tenant}", &extra)
	if err != nil || !slices.Equal(extra.All, columns("region", "version", "tenant")) ||
		!slices.Equal(extra.Used, []int{2}) {
		t.Fatal(extra, err)
	}
	if _, err := template.Text(row); publisher.ClassOf(err) != publisher.Permanent {
		t.Errorf("NULL in the template: %v", err)
	}
	if _, err := ParseTemplate("{a", &extra); err == nil {
		t.Error("a { without its } was taken")
	}
}

// columns returns additional texts that are columns.
func columns(names ...string) (extra []rowkey.Source) {
	for _, name := range names {
		extra = append(extra, rowkey.Source{Kind: rowkey.Column, Name: name})
	}
	return extra
}

func TestTemplateOfHeadersAndPayload(t *testing.T) {
	var extra Extra
	template, err := ParseTemplate("{header.region}.{payload.a.0}.{region}.{header.region}", &extra)
	want := []rowkey.Source{
		{Kind: rowkey.Header, Name: "region"},
		{Kind: rowkey.Payload, Name: "a.0"},
		{Kind: rowkey.Column, Name: "region"},
	}
	if err != nil || !slices.Equal(extra.All, want) {
		t.Fatal(extra, err)
	}
	row := &outbox.Row{Extra: []string{"eu", "7", "x"}}
	if got, err := template.Text(row); got != "eu.7.x.eu" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for nulls, want := range map[uint64]string{
		0b001: "the template of topic or exchange needs {header.region}, which is missing or NULL in this row",
		0b010: "the template of topic or exchange needs {payload.a.0}, which is missing or NULL in this row",
		0b100: "the template of topic or exchange needs {region}, which is missing or NULL in this row",
	} {
		row.Nulls = nulls
		if _, err := template.Text(row); publisher.ClassOf(err) != publisher.Permanent || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A row records in 64 bits which of its additional texts are NULL.
func TestTemplatesNameSoManyTextsAtMost(t *testing.T) {
	var text strings.Builder
	for i := range outbox.MostExtra {
		fmt.Fprintf(&text, "{c%d}", i)
	}
	plan := func(text string) []Problem {
		_, found := Plan(outbox.Config{}, "t", "", []*Route{{TopicText: text, ExchangeText: "{c0}{topic}"}})
		return found
	}
	if found := plan(text.String()); found != nil {
		t.Error(found)
	}
	if found := plan(text.String() + "{another}"); len(found) != 1 || !strings.Contains(found[0].Text, "more than 64") {
		t.Errorf("one more: %v", found)
	}
}

// Columns may be called header and payload.
func TestColumnsNamedLikeSources(t *testing.T) {
	t.Parallel()
	var extra Extra
	want := []rowkey.Source{{Kind: rowkey.Column, Name: "header"}, {Kind: rowkey.Column, Name: "payload"}}
	if _, err := ParseTemplate("{header}.{payload}", &extra); err != nil || !slices.Equal(extra.All, want) {
		t.Error(extra.All, err)
	}
}

func TestParseProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{topic":           "has a brace alone; " + forms + ", or {{ and }} for braces",
		"{a{b}}":           "has a brace alone; " + forms + ", or {{ and }} for braces",
		"a}":               "has a brace alone; " + forms + ", or {{ and }} for braces",
		"{{a}":             "has a brace alone; " + forms + ", or {{ and }} for braces",
		"{}":               "has {}, which lacks a name; " + forms,
		"{header.}":        "has {header.}, which lacks a name; " + forms,
		"{payload.}":       "has {payload.}, which lacks a name; " + forms,
		"{payload.a..b}":   "has {payload.a..b}, which lacks a name; " + forms,
		"x{payload.a.}{b}": "has {payload.a.}, which lacks a name; " + forms,
	} {
		if _, err := ParseTemplate(text, &Extra{}); err == nil || err.Error() != want {
			t.Errorf("%q gives %v, want %s", text, err, want)
		}
	}
}
