package route

import (
	"errors"
	"slices"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestAddresses(t *testing.T) {
	template := func(text string) *Template {
		parsed, err := ParseTemplate(text, &Extra{All: columns("tenant")})
		if err != nil {
			t.Fatal(err)
		}
		return &parsed
	}
	view := func(relayed string, topics ...string) outbox.View {
		v := outbox.View{Filter: outbox.Filter{Topics: topics}}
		if relayed != "" {
			v.Columns = map[string]string{"relayed_at": relayed}
		}
		return v
	}
	routes := []*Route{
		{View: view("", "audit.*"), Topic: *template("log.{topic}")},
		{View: view("", "order"), Exchange: template("{tenant}")},
		{View: view("x", "order", "audit.a"), Topic: *template("copy")},
		// Takes rows that another destination takes.
		{View: view("y"), Topic: *template("dead"), FailedFrom: "orders"},
	}
	connect(routes)
	row := func(topic, tenant string, nulls uint64) outbox.Row {
		return outbox.Row{Message: publisher.Message{Topic: topic}, Extra: []string{tenant}, Nulls: nulls}
	}
	addresses, lost := Addresses(routes, []outbox.Row{
		row("order", "north", 0), row("order", "east", 0), row("order", "north", 0),
		row("order", "", 1), row("audit.b", "", 1), row("audit.a", "", 0),
		row("nobody's", "", 0), row("nobody's", "x", 0),
		{Invalid: errors.New("no topic")},
	})
	for i, want := range [][]publisher.Address{
		{{Topic: "log.audit.b"}, {Topic: "log.audit.a"}},
		{{Topic: "order", Exchange: "north"}, {Topic: "order", Exchange: "east"}},
		{{Topic: "copy"}},
		{{Topic: "dead"}},
	} {
		if !slices.Equal(addresses[i], want) {
			t.Errorf("destination %d gets %v, want %v", i, addresses[i], want)
		}
	}
	if !slices.Equal(lost, []string{"nobody's"}) {
		t.Errorf("lost: %q", lost)
	}
}
