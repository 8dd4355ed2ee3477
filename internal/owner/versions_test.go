package owner

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// These are the numbers that replicas of other versions read from this one's locks. A change to any of them makes the
// versions before and after it invisible to each other, so that both relay the same rows, or makes the new replicas of
// a rolling update wait for the last old one. `make upgrade` tests this with real ones.
func TestLocksAreThoseOfOtherVersions(t *testing.T) {
	t.Parallel()
	const mapping = "shard (hashtext(coalesce(key, id::text)) & 2147483647) % 16, order seq, id, priority none"
	for what, test := range map[string]struct{ got, want int }{
		"the class of a table":           {int(classOf("public.outbox_messages", "")), -1995325405},
		"a membership":                   {int(membershipOf(16, mapping, true)), 1081623938},
		"one that cannot publish":        {int(membershipOf(16, mapping, false)), 1618494850},
		"a membership with other shards": {int(membershipOf(1024, mapping, true)), 1610106242},
	} {
		if test.got != test.want {
			t.Errorf("%s: %d, want %d", what, test.got, test.want)
		}
	}
}

// A replica of another version that shows the same kind shares the work, whichever came first.
func TestAnotherVersionShares(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	// The test itself takes the locks with the statements of the other version.
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	class := classOf(s.Name, "")
	const pinned = 1082116834 // 16 shards, and the mapping below
	exec("select pg_advisory_lock_shared($1, -$2::integer)", class, pinned)
	exec("select pg_advisory_lock($1, shard) from generate_series(0, 7) shard", class)

	this, _ := startWith(t, s.URL, s.Name, 16, 5*time.Second, nil, func(o *tested) { o.Mapping = "pinned" })
	state := await(t, this, "takes its share beside it", owns(8))
	if state.Note != "" || state.Replicas != 2 || state.Others != 0 {
		t.Errorf("%+v", state)
	}
	exec("select pg_advisory_unlock($1, shard) from generate_series(0, 7) shard", class)
	exec("select pg_advisory_unlock_shared($1, -$2::integer)", class, pinned)
	await(t, this, "takes over when it has gone", owns(16))
	exec("select pg_advisory_lock_shared($1, -$2::integer)", class, pinned)
	await(t, this, "gives it a share when it comes again", owns(8))
}
