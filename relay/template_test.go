package relay

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// Rows in which a template finds nothing fail with a text that names what it looked for. The other rows go to the
// topics that it produces.
func TestTemplatesFindTextsOfRows(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t,
		`create table outbox_messages (id bigint primary key, topic text not null, payload jsonb, headers jsonb, attempt int,
			last_error text,
		updated_at timestamptz, relayed_at timestamptz, failed_at timestamptz)`)
	s.Exec(t, `insert into outbox_messages (id, topic, payload, headers) values (1, 'order', '{"shop": {"id": 7}}',
		'{"region": "eu"}'),
		(2, 'order', '{"shop": {"id": null}}', '{"region": "eu"}'), (3, 'order', '{"shop": {"id": 8}}', '{"Region": "eu"}'),
		(4, 'bill', '{"shop": {"id": true}}', '{"region": "é"}')`)
	r := replica(t, s, b, func(c *tested) { c.Destinations[0].Topic = "{header.region}.{payload.shop.id}.{topic}" })
	// A template sees the row as it is in the table, before a profile changes it.
	r.config.Destinations[0].profile = func(m *publisher.Message, _ int64) error {
		m.Headers, m.Payload = nil, []byte("x")
		return nil
	}
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var topics []string
	for _, m := range b.All() {
		topics = append(topics, m.Topic)
	}
	if slices.Sort(topics); !slices.Equal(topics, []string{"eu.7.order", "é.true.bill"}) {
		t.Errorf("the topics are %q", topics)
	}
	for id, want := range map[int]string{
		2: "needs {payload.shop.id}, which is missing or NULL in this row",
		3: "needs {header.region}, which is missing or NULL in this row",
	} {
		if got := pgtest.Value[string](t, s,
			"select last_error from outbox_messages where failed_at is not null and id = $1", id); !strings.HasSuffix(got,
			want) {
			t.Errorf("row %d: %s, want %s", id, got, want)
		}
	}
}

// A template that names a column that the table lacks holds its own destination, which sends when the column has come.
func TestTemplateWaitsForItsColumn(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, ownTable("primary key"))
	r := replica(t, s, b, func(c *tested) {
		c.Destinations[0].Name, c.Destinations[0].Columns = "first", ownColumns("first")
		c.Destinations = append(c.Destinations, &Destination{
			Name: "second", Publisher: b.Publisher(), Topic: "{place}", Columns: ownColumns("second"),
			PublishTimeout: 10 * time.Second,
		})
	})
	r.looks = 50 * time.Millisecond
	start(t, r)
	s.Exec(t, "insert into outbox_messages (topic, payload) values ('orders', '{}')")
	b.Await(t, 1)
	eventually(t, "the other is held", func() bool { return strings.Contains(notReady(r), "no column place") })
	s.Exec(t, "alter table outbox_messages add place text not null default 'there'")
	b.Await(t, 2)
	if all := b.All(); all[0].Topic != "orders" || all[1].Topic != "there" {
		t.Errorf("sent to %s and %s", all[0].Topic, all[1].Topic)
	}
	eventually(t, "ready", func() bool { return notReady(r) == "" })
}
