package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/profile"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// picky is a publisher that cannot carry headers whose value has a line break.
type picky struct{ publisher.Publisher }

func (picky) CheckHeader(h *publisher.Header) error {
	if strings.Contains(h.Value, "\n") {
		return publisher.PermanentError("illegal header", "a line break")
	}
	return nil
}

// A dead letter's own headers that cannot be carried are left out, and named beside the reason. The headers that
// describe the failure are always carried.
func TestShed(t *testing.T) {
	t.Parallel()
	many := []publisher.Header{{Name: "outbox-error", Value: "no"}}
	for i := range 300 {
		many = append(many, publisher.Header{Name: fmt.Sprint("Nats-", i)})
	}
	for name, c := range map[string]struct {
		headers []publisher.Header
		left    []string
		want    string
	}{
		"all travel": {
			[]publisher.Header{{Name: "a", Value: "1"}, {Name: "outbox-error", Value: "no"}},
			nil,
			"a=1 outbox-error=no",
		},
		"lines in a text": {
			[]publisher.Header{{Name: "outbox-error", Value: " no:\r\n\tnever\x00 "}},
			nil,
			"outbox-error=no:   never",
		},
		"some do not": {[]publisher.Header{
			{Name: "a", Value: "1\n2"},
			{Name: "Nats-Msg-Id"},
			{Name: "CC"},
			{Name: "message-id"},
			{Name: "b"},
			{Name: "outbox-error", Value: "no"},
		}, nil, `b= outbox-error=no; headers left out: a, Nats-Msg-Id, CC, message-id`},
		"twice": {
			[]publisher.Header{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}},
			nil,
			`a=1 outbox-error=headers left out: a`,
		},
		"left out then": {
			[]publisher.Header{{Name: "outbox-error"}},
			[]string{"all"},
			`outbox-error=headers left out: all`,
		},
		"odd name": {
			[]publisher.Header{{Name: "CC\n"}, {Name: "nats-\n"}, {Name: "outbox-error", Value: "x"}},
			nil,
			`CC\n= outbox-error=x; headers left out: nats-�`,
		},
		"many": {many, nil, "…"},
	} {
		row := &outbox.Row{Message: publisher.Message{Headers: slices.Clone(c.headers)}, LeftOut: c.left}
		d := &Destination{Name: "dead", FailedOf: "orders", Publisher: picky{}}
		d.shed(row)
		var got []string
		for _, h := range row.Message.Headers {
			got = append(got, h.Name+"="+h.Value)
		}
		if text := strings.ReplaceAll(strings.Join(got, " "), "CC\n", `CC\n`); text != c.want &&
			!(name == "many" && strings.HasSuffix(text, c.want)) {
			t.Errorf("%s: %s\nwant %s", name, text, c.want)
		}
	}
}

// A dead letter is sent in each wire format with the headers that describe the failure, without those of its own
// headers that the format reserves.
func TestDeadLettersInWireFormats(t *testing.T) {
	t.Parallel()
	for name, format := range map[string]struct{ reserved, want string }{
		profile.Debezium:     {"id", "id=7 tenant=acme outbox-error=no; headers left out: id"},
		profile.CloudEvents:  {"ce_id", "tenant=acme outbox-error=no; headers left out: ce_id"},
		profile.PhoenixMicro: {"", "outbox-error=no"},
	} {
		p, err := profile.New(name, publisher.ProtocolKafka, profile.Options{Source: "/here"})
		if err != nil {
			t.Fatal(err)
		}
		row := &outbox.Row{Message: publisher.Message{ID: "7", Topic: "t", Payload: []byte("{}"), Headers: []publisher.Header{
			{Name: "tenant", Value: "acme"}, {Name: outbox.HeaderError, Value: "no"},
		}}}
		if format.reserved != "" {
			row.Message.Headers = append(row.Message.Headers, publisher.Header{Name: format.reserved, Value: "mine"})
		}
		d := &Destination{Name: "dead", FailedOf: "orders", Publisher: picky{}, profile: p}
		d.render(row, 1)
		var got []string
		for _, h := range row.Message.Headers {
			if name != profile.CloudEvents || !strings.HasPrefix(h.Name, "ce_") {
				got = append(got, h.Name+"="+h.Value)
			}
		}
		if text := strings.Join(got, " "); row.Invalid != nil || text != format.want {
			t.Errorf("%s: %s (%v)\nwant %s", name, text, row.Invalid, format.want)
		}
	}
}

// The dedup id of a dead letter identifies the failure that it is about.
func TestDeadLettersOfOneRowDiffer(t *testing.T) {
	t.Parallel()
	d := &Destination{Name: "dead", FailedOf: "orders", Columns: map[string]string{"relayed_at": "x"}}
	var ids []string
	for _, due := range []time.Time{time.UnixMicro(1767225600000001), time.UnixMicro(1767225600000002)} {
		row := &outbox.Row{Message: publisher.Message{DedupID: "7.5/public.outbox/1@9"}, Due: due}
		d.identify(row)
		ids = append(ids, row.Message.DedupID)
	}
	if want := []string{
		"7.5/public.outbox/1@9/dead@1767225600000001", "7.5/public.outbox/1@9/dead@1767225600000002",
	}; !slices.Equal(ids, want) {
		t.Errorf("%q", ids)
	}
}

// A destination that takes dead letters of another one does not share rows with any destination, and does not count as
// one that takes every row.
func TestViewsOfOrigins(t *testing.T) {
	t.Parallel()
	own := map[string]string{"relayed_at": "x"}
	orders := &Destination{Name: "orders", Topics: []string{"order.*"}}
	letters := &Destination{Name: "dead", FailedOf: "orders", Columns: own}
	rest := &Destination{Name: "rest", Topics: []string{"a*"}}
	copied := &Destination{Name: "copy", Topics: []string{"b*"}, Columns: map[string]string{"relayed_at": "y"}}
	all := []*Destination{orders, letters, rest, copied}
	views := viewsOf(all)
	if len(views[1].Before) != 0 || views[1].FailedOf == nil || views[1].FailedOf.Name != "orders" ||
		len(views[2].Before) != 1 || len(views[3].Before) != 0 {
		t.Errorf("views %+v", views)
	}
	if takeAll(all) || !takeAll([]*Destination{{Name: "orders"}, letters, copied}) {
		t.Error("wrong about rows that no destination takes")
	}
}
