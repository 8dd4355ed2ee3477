package outbox

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

func TestOpenProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setup  string
		config Config
		want   string
	}{
		"missing table": {"", Config{}, "table outbox_messages does not exist in database"},
		"view":          {"create view outbox_messages as select 1 id", Config{}, "or is a view or a foreign table"},
		"missing column": {
			"create table outbox_messages (id uuid, topic text, relayed_at timestamptz)",
			Config{},
			"another one with Columns=payload:NAME",
		},
		"no mark": {
			"create table outbox_messages (id uuid, topic text, payload jsonb)",
			Config{},
			"has no column relayed_at",
		},
		"unknown id": {
			"create table outbox_messages (id numeric, topic text, payload jsonb, relayed_at timestamptz)",
			Config{},
			"column id of table",
		},
		"boolean mark": {
			"create table outbox_messages (id uuid, topic text, payload jsonb, relayed_at boolean)",
			Config{},
			"has type boolean, which the relay cannot use as relayed_at",
		},
		"mapped to nothing": {
			pgtest.ShapeA,
			Config{Columns: map[string]string{"key": "aggregate"}},
			"another one with Columns=key:NAME",
		},
		"key column": {
			pgtest.ShapeA,
			Config{Key: rowkey.Source{Kind: rowkey.Column, Name: "aggregate"}},
			"has no column aggregate, which Key names",
		},
		"template": {
			pgtest.ShapeA,
			Config{Extra: []rowkey.Source{{Name: "tenant"}}},
			"has no column tenant, which the template",
		},
		"template of a header": {
			"create table outbox_messages (id uuid, topic text, payload jsonb, headers text, relayed_at timestamptz)",
			Config{Extra: []rowkey.Source{{Kind: rowkey.Header, Name: "a"}}},
			"names the header a, and table",
		},
		"time": {
			pgtest.ShapeA,
			Config{Extra: []rowkey.Source{{Kind: rowkey.Time, Name: "happened_at"}}},
			"has no column happened_at of one of the types timestamptz, timestamp, which TimeColumn names",
		},
		"time that is none": {
			pgtest.ShapeA,
			Config{Extra: []rowkey.Source{{Kind: rowkey.Time, Name: "topic"}}},
			"has no column topic of one of the types timestamptz, timestamp, which TimeColumn names",
		},
		"encoded JSON": {
			pgtest.ShapeA,
			Config{Views: []View{{Encoded: true}}},
			"PayloadEncoding requires a payload of type text or varchar, and column payload of table",
		},
		"template of a payload": {
			"create table outbox_messages (id uuid, topic text, payload text, relayed_at timestamptz)",
			Config{Extra: []rowkey.Source{{Kind: rowkey.Payload, Name: "a.b"}}},
			"names the payload a.b, and table",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			if test.setup != "" {
				s.Exec(t, test.setup)
			}
			test.config.Table = messages
			_, err := Open(t.Context(), s.Pool, test.config)
			if setup, ok := errors.AsType[*SetupError](err); !ok || !strings.Contains(setup.Error(), test.want) ||
				setup.Remedy == "" {
				t.Errorf("got %v, want a remedy for %q", err, test.want)
			}
		})
	}
}

func TestMissingRights(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, pgtest.ShapeA)
	role := s.NewRole(t)
	pool := s.PoolAs(t, role)
	for _, step := range []struct{ grant, want string }{
		{"", "rows cannot be read and marked: ERROR: permission denied for schema"},
		{"grant usage on schema " + s.Name, "rows cannot be read and marked: ERROR: permission denied for table"},
		{"grant select (id, topic, payload, headers, attempt, relayed_at, failed_at, last_error, inserted_at, updated_at) " +
			"on outbox_messages", "rows cannot be read and marked: ERROR: permission denied for table"},
		{"grant select on outbox_messages", "rows cannot be read and marked: ERROR: permission denied"},
		{"grant update (relayed_at) on outbox_messages", "rows cannot be read and marked: ERROR: permission denied"},
		{"grant update (attempt, failed_at, last_error, updated_at) on outbox_messages", ""},
	} {
		if step.grant != "" {
			s.Exec(t, step.grant+" to "+role)
		}
		_, err := Open(t.Context(), pool, Config{Table: sql.Table{Schema: s.Name, Name: "outbox_messages"}})
		if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("after %q: %v, want %q", step.grant, err, step.want)
		}
	}
}

// Replicas share the work with replicas of other versions that find a row's shard and its place in the same way, and
// show this by the same texts. A change to any of these texts makes the new replicas of a rolling update wait for the
// last old one.
func TestMappingIsThatOfOtherVersions(t *testing.T) {
	t.Parallel()
	const plain = `, order "inserted_at", "id", priority none`
	shard := func(key string) string {
		return `shard (hashtext(coalesce(` + key + `, "id"::text)) & 2147483647) % 16`
	}
	for name, test := range map[string]struct {
		ddl    string
		config Config
		want   string
	}{
		"recommended": {
			sql.Schema(sql.Table{Name: "outbox_messages"}),
			Config{},
			shard(`"key"`) + `, order "seq", "id", priority none`,
		},
		"shape A": {pgtest.ShapeA, Config{}, shard("null::text") + plain},
		"shape B": {pgtest.ShapeB, Config{}, shard("null::text") + plain},
		"shape C": {pgtest.ShapeC, Config{}, shard("null::text") + plain},
		"header": {
			pgtest.ShapeB + "alter table outbox_messages add column priority integer",
			Config{Key: rowkey.Source{Kind: rowkey.Header, Name: "tenant"}},
			shard(`("headers" ->> 'tenant')`) + `, order "inserted_at", "id", priority (~coalesce("priority", 0)::bigint)`,
		},
		"payload": {
			pgtest.ShapeB,
			Config{Key: rowkey.Source{Kind: rowkey.Payload, Name: "order.id"}},
			shard(`("payload" #>> array['order', 'id'])`) + plain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, test.ddl)
			test.config.Table, test.config.Shards = sql.Table{Schema: s.Name, Name: "outbox_messages"}, 16
			table, err := Open(t.Context(), s.Pool, test.config)
			if err != nil {
				t.Fatal(err)
			}
			if got := table.Groups()[0].Mapping; got != test.want {
				t.Errorf("%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// A domain, also one over another domain, counts as its base type, with its width and its check for null.
func TestDomains(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create domain short as varchar(12); create domain shorter as short; create domain required as bigint not
		null;
		create domain place as required;
		create table outbox_messages (id uuid primary key, seq place, topic shorter, payload jsonb, headers text, relayed_at
		timestamptz,
			last_error shorter)`, pgx.QueryExecModeSimpleProtocol)
	table := open(t, s, Config{})
	if c := table.mapping.LastError; !c.Has() || c.Width != 12 {
		t.Errorf("last_error: %+v", c)
	}
	if c := table.mapping.Order; c.Plain != "seq" || c.OID != pgtype.Int8OID || !c.NotNull {
		t.Errorf("order: %+v", c)
	}
	// Headers of a type that does not fit would be left out unseen.
	if !slices.ContainsFunc(table.Lacks(), func(f finding.Finding) bool { return strings.Contains(f.Found, "headers (text)") }) {
		t.Errorf("%+v", table.Lacks())
	}
}

// A right that is missing for one destination's columns is that destination's problem, and the table's if none has it.
func TestMissingRightsOfDestinations(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(messages)+"alter table outbox_messages add a timestamptz, add b timestamptz")
	role := s.NewRole(t)
	s.Exec(t, "grant usage on schema "+s.Name+" to "+role)
	s.Exec(t, "grant select on outbox_messages to "+role)
	pool := s.PoolAs(t, role)
	pooled := s.PoolWith(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["role"], c.ConnConfig.DefaultQueryExecMode = role, pgx.QueryExecModeExec
	})
	view := func(name string) View { return View{Name: name, Columns: map[string]string{"relayed_at": name}} }
	config := Config{Table: messages, Views: []View{view("a"), view("b")}}
	for _, pool := range []*pgxpool.Pool{pool, pooled} {
		if _, err := Open(t.Context(), pool, config); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("without any right: %v", err)
		}
	}
	s.Exec(t, "grant update (b) on outbox_messages to "+role)
	for _, pool := range []*pgxpool.Pool{pool, pooled} {
		table, err := Open(t.Context(), pool, config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.For(config.Views[0]); err == nil ||
			!strings.Contains(err.Error(), "rows of destination a cannot be read and marked: ERROR: "+
				"permission denied") {
			t.Errorf("the destination without a right: %v", err)
		}
		if _, err := table.For(config.Views[1]); err != nil {
			t.Errorf("the other one: %v", err)
		}
	}
	s.Exec(t, "grant update (a) on outbox_messages to "+role)
	for _, pool := range []*pgxpool.Pool{pool, pooled} {
		if _, err := Open(t.Context(), pool, config); err != nil {
			t.Error(err)
		}
	}
}
