package outbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// The size includes all partitions and their indexes.
func TestSizeOfPartitions(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id int not null, topic text not null, payload text not null, relayed_at
		timestamptz,
		inserted_at timestamptz not null) partition by range (id)`)
	for _, bounds := range []string{"1 from (0) to (1000)", "2 from (1000) to (2000)"} {
		name, bound, _ := strings.Cut(bounds, " ")
		s.Exec(t, "create table part"+name+" partition of outbox_messages for values "+bound)
	}
	table := open(t, s, Config{Table: messages})
	size := func() Size {
		t.Helper()
		size, err := table.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return size
	}
	if empty := size(); empty.Bytes > 1<<20 || empty.DeadRows != 0 {
		t.Errorf("an empty table has %+v", empty)
	}
	s.Exec(t, "insert into outbox_messages select n, 't', repeat('x', 1000), null, now() from generate_series(1, 1999) n")
	if full := size(); full.Bytes < 2<<20 {
		t.Errorf("a table with 2 MB has %+v", full)
	}
}

// Rows can fail because of their age only if the table holds the age and can mark rows as failed.
func TestAgeNeedsColumns(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, "create table outbox_messages (id int primary key, topic text not null, payload text not null, relayed_at "+
		"timestamptz)")
	_, err := Open(t.Context(), s.Pool, Config{Table: messages, Views: []View{{Name: "default", Expires: true}}})
	setup, ok := errors.AsType[*SetupError](err)
	if !ok || !strings.Contains(setup.Error(), "failed_at") || !strings.Contains(setup.Error(), "MaxAge") {
		t.Errorf("without failed_at: %v", err)
	}
	s.Exec(t, "alter table outbox_messages add failed_at timestamptz")
	_, err = Open(t.Context(), s.Pool, Config{Table: messages, Views: []View{{Name: "default", Expires: true}}})
	if setup, ok := errors.AsType[*SetupError](err); !ok || !strings.Contains(setup.Error(), "inserted_at") {
		t.Errorf("without inserted_at: %v", err)
	}
	s.Exec(t, "alter table outbox_messages add inserted_at timestamptz")
	if _, err = Open(t.Context(), s.Pool,
		Config{Table: messages, Views: []View{{Name: "default", Expires: true}}}); err != nil {
		t.Error(err)
	}
}
