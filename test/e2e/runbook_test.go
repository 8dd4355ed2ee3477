package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestRunbookNamesWhoLocks follows docs/runbook.md from the warning that rows are locked to the session that locks
// them, and ends this session.
func TestRunbookNamesWhoLocks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### Who keeps rows locked\n")
	_, query, _ := strings.Cut(section, "```sql\n")
	query, _, _ = strings.Cut(query, ";\n```")
	if !found || query == "" {
		t.Fatal("the runbook has no query")
	}
	outbox := newTable(t)
	outbox.insert("orders", 0, 1, 1)
	holder, err := outbox.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release()
	for _, statement := range []string{"begin", "select from outbox_messages for update"} {
		if _, err := holder.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	r := startRelay(t, outbox.env("stdout:"))
	await(t, "the relay says that the row is locked", func() bool {
		return slices.ContainsFunc(r.records("WARN"), func(l record) bool {
			return strings.Contains(l.Msg, "locked by another session")
		})
	})
	pids := pgtest.Value[[]int32](t, outbox.Schema, "select array_agg(pid) from ("+query+") found")
	if pid := int32(holder.Conn().PgConn().PID()); len(pids) == 0 || pids[0] != pid {
		t.Fatalf("the query names %v, not %d", pids, pid)
	}
	outbox.Exec(t, fmt.Sprintf("select pg_terminate_backend(%d)", pids[0]))
	outbox.awaitDrained()
	r.stop()
}
