package outbox

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Examining the table shows whether each insert rings.
func TestTableReportsTheDoorbell(t *testing.T) {
	t.Parallel()
	messages := sql.Table{Name: "outbox_messages"}
	bell := sql.Doorbell(messages, "bell")
	for name, test := range map[string]struct {
		setup   string
		channel string
		rings   bool
	}{
		"there":     {bell, "bell", true},
		"not there": {"", "bell", false},
		"dropped":   {bell + "drop trigger outbox_relay_doorbell on outbox_messages", "bell", false},
		"on another table": {"create table others (like outbox_messages including all); " +
			sql.Doorbell(sql.Table{Name: "others"}, "bell"), "bell", false},
		"on another channel":    {sql.Doorbell(messages, "bell2"), "bell", false},
		"while nobody listens":  {bell, "", false},
		"with an empty channel": {sql.Doorbell(messages, ""), "", false},
		"disabled":              {bell + "alter table outbox_messages disable trigger outbox_relay_doorbell", "bell", false},
		"all disabled":          {bell + "alter table outbox_messages disable trigger user", "bell", false},
		"for replication only": {
			bell + "alter table outbox_messages enable replica trigger outbox_relay_doorbell", "bell",
			false,
		},
		"always": {
			bell + "alter table outbox_messages enable always trigger outbox_relay_doorbell", "bell",
			true,
		},
		"of a function that is deaf": {bell +
			"create or replace function outbox_relay_doorbell() returns trigger language plpgsql as $$ begin " +
			"return null; end $$", "bell", false},
		"another trigger beside it": {bell +
			"create function f() returns trigger language plpgsql as $$ begin return new; end $$; create " +
			"trigger a before insert on outbox_messages for each row execute function f()", "bell", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, recommended())
			table := open(t, s, Config{Channel: test.channel})
			s.Exec(t, test.setup, pgx.QueryExecModeSimpleProtocol)
			current, rings, err := table.Current(t.Context())
			if err != nil || !current || rings != test.rings {
				t.Errorf("current %t, rings %t, %v", current, rings, err)
			}
		})
	}
}

// A partitioned table has the trigger itself, and a renamed table keeps it.
func TestDoorbellOfOtherTables(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table messages (id uuid not null, seq bigint not null, topic text, payload jsonb, relayed_at
		timestamptz, primary key
	(id, seq)) partition by range (seq);
		create table one partition of messages default; create index on messages (seq) where relayed_at is
		null`, pgx.QueryExecModeSimpleProtocol)
	s.Exec(t, sql.Doorbell(sql.Table{Name: "messages"}, "bell"), pgx.QueryExecModeSimpleProtocol)
	s.Exec(t, "alter table messages rename to outbox_messages")
	if current, rings, err := open(t, s, Config{Channel: "bell"}).Current(t.Context()); err != nil || !current || !rings {
		t.Errorf("current %t, rings %t, %v", current, rings, err)
	}
	writer, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(t.Context()) }() // only to check that the trigger works
	if _, err := writer.Exec(t.Context(),
		"insert into outbox_messages values (gen_random_uuid(), 1, 't', '{}')"); err != nil {
		t.Error(err)
	}
}
