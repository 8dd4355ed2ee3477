package relay

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// fields returns the names of the fields that an error reports.
func fields(err error) (names []string) {
	switch e := err.(type) { //nolint:errorlint // what is joined is looked at one by one
	case nil:
	case *FieldError:
		names = append(names, e.name())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			names = append(names, fields(one)...)
		}
	}
	return names
}

// The error names every field that cannot be used, all of them at once.
func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := publishertest.NewBroker().Publisher()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	own := map[string]string{"relayed_at": "x"}
	many := func(n int) (all []*Destination) {
		for range n {
			all = append(all, &Destination{})
		}
		return all
	}
	for name, c := range map[string]struct {
		config Config
		want   []string
	}{
		"nothing":      {Config{}, []string{"Destinations"}},
		"no publisher": {Config{Destinations: []*Destination{{}}}, []string{"Destinations[0].Publisher"}},
		"numbers": {
			Config{
				BatchSize: -1, MaxInFlight: -1, MaxInFlightBytes: -1, MaxRowBytes: -1, Shards: 1025,
				OwnerTTL: 1, StopTimeout: -1, Destinations: []*Destination{{Publisher: b}},
			},
			[]string{
				"BatchSize", "MaxInFlight", "MaxInFlightBytes", "MaxRowBytes", "Shards", "OwnerTTL", "StopTimeout",
			},
		},
		"table": {
			Config{Table: "a.b.c", Key: "colum:x", Destinations: []*Destination{{Publisher: b}}},
			[]string{"Table", "Key"},
		},
		"destination": {
			Config{Destinations: []*Destination{{
				Publisher: b, Topic: "{", Exchange: "}", PayloadEncoding: "b64", WireFormat: "xml", MaxAttempts: -1,
				BackoffMin: time.Hour, BackoffMax: time.Minute, PublishTimeout: -1,
			}}},
			[]string{
				"Destinations[0].PayloadEncoding", "Destinations[0].WireFormat", "Destinations[0].MaxAttempts",
				"Destinations[0].BackoffMin", "Destinations[0].PublishTimeout", "Destinations[0].Topic",
				"Destinations[0].Exchange",
			},
		},
		"names": {
			Config{Destinations: []*Destination{
				{Name: "a", Publisher: b},
				{Publisher: b},
				{Name: "a", Publisher: b},
				{Name: "none", Publisher: b},
			}},
			[]string{
				"Destinations[1].Name", "Destinations[2].Name", "Destinations[3].Name", "Destinations[1].Topics",
				"Destinations[2].Topics", "Destinations[3].Topics",
			},
		},
		"origins": {
			Config{Destinations: []*Destination{
				{Name: "a", Publisher: b, FailedOf: "b", Columns: own},
				{Name: "b", Publisher: b, RelayedOf: "a", Columns: map[string]string{"relayed_at": "y"}},
				{Name: "c", Publisher: b, FailedOf: "nobody"},
				{Name: "d", Publisher: b, FailedOf: "e"},
				{Name: "e", Publisher: b},
				{Name: "f", Publisher: b, FailedOf: "e", RelayedOf: "e"},
			}},
			[]string{
				"Destinations[0].FailedOf", "Destinations[1].RelayedOf", "Destinations[2].FailedOf", "Destinations[3].FailedOf",
				"Destinations[5].RelayedOf",
			},
		},
		"columns": {
			Config{
				Delete:       true,
				Destinations: []*Destination{{Name: "a", Publisher: b, Columns: map[string]string{"failed_at": "x"}}},
			},
			[]string{"Destinations[0].Columns", "Destinations[0].Columns"},
		},
		"shared columns": {
			Config{Destinations: []*Destination{
				{Name: "a", Publisher: b, Columns: own},
				{Name: "b", Publisher: b, Columns: map[string]string{"relayed_at": "y", "failed_at": "x"}},
			}},
			[]string{"Destinations[1].Columns"},
		},
		"nothing left": {
			Config{Destinations: []*Destination{
				{Name: "a", Publisher: b},
				{Name: "b", Publisher: b},
				{Name: "c", Publisher: b, Columns: own},
				{Name: "d", Publisher: b, Columns: own},
			}},
			[]string{"Destinations[1].Topics", "Destinations[3].Topics"},
		},
		"hundred": {Config{Destinations: many(100)}, nil},
	} {
		_, err := New(pool, c.config)
		got := fields(err)
		if name == "hundred" {
			if len(got) != 299 { // neither a name nor a publisher, and the first takes each row
				t.Errorf("%s: %d fields are named", name, len(got))
			}
			continue
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "relay.Config.") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil, Config{}); err == nil || !strings.Contains(err.Error(), "pool is nil") {
		t.Errorf("without a pool: %v", err)
	}
}

// With a publisher and nothing else, each limit and each time has the default that its comment names, and a nil meter
// measures nothing.
func TestConfigHasDefaults(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d := &Destination{Publisher: publishertest.NewBroker().Publisher()}
	r, err := New(pool, Config{Destinations: []*Destination{d}})
	if err != nil {
		t.Fatal(err)
	}
	s := r.config
	if s.BatchSize != 1000 || s.MaxInFlight != 4096 || s.MaxInFlightBytes != 64<<20 || r.plan.MaxRow != 64<<20 ||
		s.Shards != 16 ||
		s.PollInterval != 0 || r.plan.Channel != "outbox_messages" ||
		s.OwnerTTL != 10*time.Second || s.StopTimeout != 25*time.Second ||
		r.plan.Table != (sql.Table{Name: "outbox_messages"}) {
		t.Errorf("%+v", s)
	}
	if s.Logger == nil || s.Meter == nil || s.Tracer == nil || s.connect == nil {
		t.Errorf("missing parts: %+v", s)
	}
	if d.Name != "default" || d.Topic != "{topic}" || d.MaxAttempts != 5 || d.BackoffMin != 500*time.Millisecond ||
		d.BackoffMax != time.Minute || d.PublishTimeout != 10*time.Second {
		t.Errorf("%+v", d)
	}
	r, err = New(pool, Config{
		PollInterval: time.Hour, MaxInFlightBytes: 1 << 30, ListenChannel: NoChannel,
		Destinations: []*Destination{{
			Publisher: publishertest.NewBroker().Publisher(), BackoffMin: time.Hour,
			WireFormat: "debezium",
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, d = r.config, r.config.Destinations[0]
	if s.PollInterval != time.Hour || r.plan.MaxRow != 1<<30 || r.plan.Channel != "" ||
		d.BackoffMax != time.Hour || d.Topic != "outbox.event.{topic}" ||
		!reflect.DeepEqual(r.plan.Preferred, map[string]string{"topic": "aggregatetype", "key": "aggregateid"}) {
		t.Errorf("%+v, %+v", s, d)
	}
}

// The fields decide what happens to rows: templates, encodings, times and wire formats. They do so with a pool of the
// caller's own and with one made by NewPool.
func TestConfigDecidesWhatIsPublished(t *testing.T) {
	t.Parallel()
	for name, makePool := range map[string]func(*pgtest.Schema, *Config) (*pgxpool.Pool, func(), error){
		"own pool": func(s *pgtest.Schema, _ *Config) (*pgxpool.Pool, func(), error) { return s.Pool, func() {}, nil },
		"NewPool": func(s *pgtest.Schema, c *Config) (*pgxpool.Pool, func(), error) {
			to, err := pgxpool.ParseConfig(s.URL)
			if err != nil {
				return nil, nil, err
			}
			return c.NewPool(t.Context(), to)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := pgtest.New(t), publishertest.NewBroker()
			s.Exec(t, `create table mail (id text primary key, topic text not null, who text, tenant text, payload text, at
				timestamptz, seq bigint generated always as identity,
				relayed_at timestamptz, attempt int default 1, failed_at timestamptz, last_error text, updated_at timestamptz)`)
			s.Exec(t, `insert into mail (id, topic, who, tenant, payload, at) values ('1', 'sent', 'ann', 'eu', 'AAE=',
				'2026-03-01T12:00:00Z')`)
			config := Config{
				Logger: slog.New(slog.DiscardHandler), Table: s.Name + ".mail",
				Columns: map[string]string{"key": "who", "header.tenant": "tenant"},
				Destinations: []*Destination{{
					Publisher: b.Publisher(), Topic: "{tenant}.{topic}", Exchange: "{tenant}", TimeColumn: "at",
					PayloadEncoding: "base64",
					WireFormat:      "cloudevents", CloudEventsSource: "/mail",
				}},
			}
			pool, closePool, err := makePool(s, &config)
			if err != nil {
				t.Fatal(err)
			}
			defer closePool()
			r, err := New(pool, config)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			all := b.All()
			if len(all) != 1 {
				t.Fatalf("%d messages", len(all))
			}
			m := all[0]
			source, _ := m.Header("ce_source")
			tenant, _ := m.Header("tenant")
			if m.Topic != "eu.sent" || m.Exchange != "eu" || string(m.Payload) != "\x00\x01" || string(m.Key) != "ann" ||
				source != "/mail" ||
				tenant != "eu" ||
				!m.Time.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
				t.Errorf("%+v", m)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if answers := b.Publisher().Publish(t.Context(), []publisher.Message{m}); answers[0] != nil {
				t.Errorf("another publisher was closed too: %v", answers[0])
			}
		})
	}
}

// NewPool makes as many connections as the relay needs, and uses the user and password that BeforeConnect sets, also
// for the control connection.
func TestNewPool(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	to, err := pgxpool.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	user, refused := to.ConnConfig.User, errors.New("no password yet")
	to.ConnConfig.User = "nobody"
	ready := false
	to.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		if !ready {
			return refused
		}
		c.User = user
		return nil
	}
	c := Config{Destinations: []*Destination{{Name: "a"}, {Name: "b"}}}
	pool, closePool, err := c.NewPool(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer closePool()
	if most := pool.Config().MaxConns; most != 1+2*3 {
		t.Errorf("at most %d connections", most)
	}
	if _, err := c.Connect(t.Context()); !errors.Is(err, refused) {
		t.Errorf("Connect: %v", err)
	}
	ready = true
	var zone string
	if err := pool.QueryRow(t.Context(), "select current_setting('timezone')").Scan(&zone); err != nil || zone != "UTC" {
		t.Errorf("%s, %v", zone, err)
	}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if to.ConnConfig.User != "nobody" || to.MaxConns == pool.Config().MaxConns {
		t.Error("the configuration that was passed in was changed")
	}
}
