package relay

import (
	"fmt"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Destination is one broker with the rules for the rows that go there.
type Destination struct {
	Name      string
	Publisher publisher.Publisher
	// Reopen makes another publisher, for after a panic in the last one. Without it that stays in use.
	Reopen   func() (publisher.Publisher, error)
	Topics   []string  // patterns of the rows' topics, see [pattern.Takes]; none takes every row
	Topic    Template  // of the topic on the broker
	Exchange *Template // of the AMQP exchange; nil leaves it to the publisher
	// Profile gives a row's message the wire format of the destination; nil leaves it plain. It sees
	// the row's own topic, and the number of the coming try.
	Profile func(m *publisher.Message, attempt int64) error
	// DedupPrefix, when not empty, stands for the database's identity in the messages' dedup ids.
	DedupPrefix    string
	MaxAttempts    int64 // refused publishes until the row fails
	BackoffMin     time.Duration
	BackoffMax     time.Duration
	PublishTimeout time.Duration
	BlockFailed    bool // a row that failed blocks its key until it is retried or discarded

	client     client
	complaint  complaint
	duplicated map[string]struct{} // streams whose unexpected duplicates were told; only the dispatch touches it
}

// filter returns which rows go to one of the destinations: those that it takes and none before it does.
func filter(destinations []*Destination, to *Destination) outbox.Filter {
	f := outbox.Filter{Topics: to.Topics}
	for _, d := range destinations {
		if d == to {
			break
		}
		f.Before = append(f.Before, d.Topics)
	}
	return f
}

// A Template makes a row's topic or exchange on the broker from its columns. The zero Template is the
// row's own topic.
type Template struct {
	parts []part
}

type part struct {
	text   string
	column int // index into Row.Extra, -1 for the row's topic, literal for text
}

const (
	columnTopic = -1
	literal     = -2
)

// ParseTemplate reads a template such as "{topic}" or "shop.{tenant}.{topic}"; {{ and }} stand for braces. The
// columns that it names besides topic are added to extra, if they are not there yet.
func ParseTemplate(text string, extra []string) (Template, []string, error) {
	if text == "{topic}" || text == "" {
		return Template{}, extra, nil
	}
	var t Template
	var fixed strings.Builder
	for rest := text; rest != ""; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			fixed.WriteString(rest)
			break
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
			return t, extra, fmt.Errorf("template %q: a } without its {", text)
		}
		name, behind, closed := strings.Cut(rest, "}")
		if !closed || name == "" || strings.Contains(name, "{") {
			return t, extra, fmt.Errorf("template %q: write {topic} or {column}", text)
		}
		t.flush(&fixed)
		rest = behind
		if name == "topic" {
			t.parts = append(t.parts, part{column: columnTopic})
			continue
		}
		index := -1
		for i, column := range extra {
			if column == name {
				index = i
			}
		}
		if index < 0 {
			index = len(extra)
			extra = append(extra, name)
		}
		t.parts = append(t.parts, part{text: name, column: index})
	}
	t.flush(&fixed)
	return t, extra, nil
}

// flush adds the text that was gathered, if any, as a part.
func (t *Template) flush(fixed *strings.Builder) {
	if fixed.Len() > 0 {
		t.parts = append(t.parts, part{text: fixed.String(), column: literal})
		fixed.Reset()
	}
}

// Fixed reports whether the template gives the same text for every row.
func (t Template) Fixed() bool {
	return len(t.parts) == 1 && t.parts[0].column == literal
}

// render gives a row's message the form that it has on the broker. What a profile or a template makes of a row is that row's alone:
// a panic makes it invalid.
func (d *Destination) render(row *outbox.Row, attempt int64, single bool) {
	defer func() {
		if value := recover(); value != nil {
			row.Invalid = publisher.PermanentError("panic", "the row cannot be made into a message: %w", panics.Caught(value))
		}
	}()
	if d.Profile != nil && row.Invalid == nil {
		row.Invalid = d.Profile(&row.Message, attempt)
	}
	if err := d.address(row); err != nil && row.Invalid == nil {
		row.Invalid = err
	}
	d.identify(&row.Message, single)
}

// address writes into a row's message where it goes on the broker.
func (d *Destination) address(row *outbox.Row) error {
	topic, err := d.Topic.render(row)
	if err != nil {
		return err
	}
	if d.Exchange != nil {
		if row.Message.Exchange, err = d.Exchange.render(row); err != nil {
			return err
		}
	}
	row.Message.Topic = topic
	return nil
}

// identify gives a message the dedup id that it has at this destination. single says that there is no other one.
func (d *Destination) identify(m *publisher.Message, single bool) {
	if d.DedupPrefix != "" {
		if _, rest, found := strings.Cut(m.DedupID, "/"); found { // a uuid has no prefix
			m.DedupID = d.DedupPrefix + "/" + rest
		}
	}
	if !single {
		m.DedupID += "/" + d.Name
	}
}

// render returns the template's text for a row that still has its own topic.
func (t Template) render(row *outbox.Row) (string, error) {
	if t.parts == nil {
		return row.Message.Topic, nil
	}
	var b strings.Builder
	for _, p := range t.parts {
		switch p.column {
		case literal:
			b.WriteString(p.text)
		case columnTopic:
			b.WriteString(row.Message.Topic)
		default:
			if row.Nulls&(1<<p.column) != 0 {
				return "", publisher.PermanentError("no topic", "the template of topic or exchange needs column %s, which is NULL in this row", p.text)
			}
			b.WriteString(row.Extra[p.column])
		}
	}
	return b.String(), nil
}
