package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/template"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// A Template makes a row's topic or exchange on the broker from the row's texts. The zero Template gives the row's own
// topic.
type Template struct {
	parts []part
}

type part struct {
	template.Part
	extra int // index into Row.Extra, for columns, headers and paths
}

// ParseTemplate parses a template; see [template.Parse]. Everything that it names besides the topic is added to extra,
// unless it is there already.
func ParseTemplate(text string, extra []outbox.Extra) (Template, []outbox.Extra, error) {
	parts, err := template.Parse(text)
	if err != nil {
		return Template{}, extra, fmt.Errorf("template %q %w", text, err)
	}
	if len(parts) == 0 || len(parts) == 1 && parts[0].Kind == template.Topic {
		return Template{}, extra, nil
	}
	kinds := map[template.Kind]outbox.ExtraKind{
		template.Column: outbox.ExtraColumn, template.Header: outbox.ExtraHeader,
		template.Payload: outbox.ExtraPayload,
	}
	var t Template
	for _, p := range parts {
		index := -1
		if kind, named := kinds[p.Kind]; named {
			one := outbox.Extra{Kind: kind, Name: p.Name}
			if index = slices.Index(extra, one); index < 0 {
				index, extra = len(extra), append(extra, one)
			}
		}
		t.parts = append(t.parts, part{p, index})
	}
	if len(extra) > outbox.MostExtra {
		return Template{}, extra, fmt.Errorf("template %q: all templates together name more than %d columns, headers and "+
			"paths", text,
			outbox.MostExtra)
	}
	return t, extra, nil
}

// Text returns the template's text for a row that still has its own topic.
func (t Template) Text(row *outbox.Row) (string, error) {
	if t.parts == nil {
		return row.Message.Topic, nil
	}
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.Kind == template.Text:
			b.WriteString(p.Name)
		case p.Kind == template.Topic:
			b.WriteString(row.Message.Topic)
		case row.Nulls&(1<<p.extra) != 0:
			return "", p.missing()
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
		switch p.Kind {
		case template.Text:
			texts[i] = sql.Literal(p.Name)
		case template.Topic:
			texts[i] = topic
		default:
			texts[i] = "(" + extra[p.extra] + ")"
		}
	}
	return "(" + strings.Join(texts, " || ") + ")"
}

// missing is the answer for a row without a value for the part.
func (p part) missing() error {
	var found string
	switch p.Kind {
	case template.Header:
		found = "and this row has no such header"
	case template.Payload:
		found = "and the payload of this row has no value there"
	default:
		found = "which is NULL in this row"
	}
	return publisher.PermanentError("no topic", "the template of topic or exchange needs %s, %s", p.Braces, found)
}
