package route

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A Template makes a row's topic or exchange on the broker from the row's texts. The zero Template gives the row's own
// topic.
type Template struct {
	parts []part
}

// A part is a section of fixed text, or a placeholder in braces.
type part struct {
	text  string // fixed text, or the placeholder as it is written
	extra int    // index into Row.Extra, or one of the following
}

const (
	fixedText = -1
	ownTopic  = -2
)

const forms = "write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}"

// tokens of a template: two braces, which stand for one, a placeholder, a single brace, which is wrong, and other text.
var tokens = regexp.MustCompile(`\{\{|\}\}|\{[^{}]*\}|[{}]|[^{}]+`)

// Extra are the additional texts of rows, which templates and times name.
type Extra struct {
	All  []rowkey.Source // without duplicates
	Used []int           // indexes of those that one destination names
}

// add returns the index of a text. It is added unless it is there already.
func (e *Extra) add(one rowkey.Source) int {
	index := slices.Index(e.All, one)
	if index < 0 {
		index, e.All = len(e.All), append(e.All, one)
	}
	e.Used = append(e.Used, index)
	return index
}

// ParseTemplate parses a template such as "{topic}" or "shop.{tenant}.{topic}"; {{ and }} stand for braces. Everything
// that it names besides the topic is added to extra. Its errors continue a sentence that names the template.
func ParseTemplate(text string, extra *Extra) (t Template, err error) {
	for _, token := range tokens.FindAllString(text, -1) {
		p := part{token, fixedText}
		switch {
		case token == "{", token == "}":
			return t, errors.New("has a brace alone; " + forms + ", or {{ and }} for braces")
		case token == "{{", token == "}}":
			p.text = token[:1]
		case token == "{topic}":
			p.extra = ownTopic
		case token[0] == '{':
			one, err := placeholder(strings.Trim(token, "{}"))
			if err != nil {
				return t, err
			}
			p.extra = extra.add(one)
		}
		t.parts = append(t.parts, p)
	}
	if len(t.parts) == 1 && t.parts[0].extra == ownTopic {
		t.parts = nil
	}
	return t, nil
}

// placeholder returns what a pair of braces stands for, other than the topic. A key's source is written in the same way
// with a colon.
func placeholder(name string) (one rowkey.Source, err error) {
	form := "column:" + name
	if kind, rest, dot := strings.Cut(name, "."); dot && (kind == "header" || kind == "payload") {
		form = kind + ":" + rest
	}
	if one.UnmarshalText([]byte(form)) != nil {
		return one, fmt.Errorf("has {%s}, which lacks a name; %s", name, forms)
	}
	return one, nil
}

// Text returns the template's text for a row that still has its own topic.
func (t Template) Text(row *outbox.Row) (string, error) {
	if t.parts == nil {
		return row.Message.Topic, nil
	}
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.extra == fixedText:
			b.WriteString(p.text)
		case p.extra == ownTopic:
			b.WriteString(row.Message.Topic)
		case row.Nulls&(1<<p.extra) != 0:
			return "", publisher.PermanentError("no topic",
				"the template of topic or exchange needs %s, which is missing or NULL in this row", p.text)
		default:
			b.WriteString(row.Extra[p.extra])
		}
	}
	return b.String(), nil
}

// SQL returns the template as an SQL expression, made of the expressions for the row's own topic and for everything
// else that the template names. It is NULL for a row without a value for one of the parts.
func (t Template) SQL(topic string, extra []string) string {
	if t.parts == nil {
		return topic
	}
	texts := make([]string, len(t.parts))
	for i, p := range t.parts {
		switch p.extra {
		case fixedText:
			texts[i] = sql.Literal(p.text)
		case ownTopic:
			texts[i] = topic
		default:
			texts[i] = "(" + extra[p.extra] + ")"
		}
	}
	return "(" + strings.Join(texts, " || ") + ")"
}
