package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// TestHugeRows puts rows of 150 MB among small ones: some are stored as they are, others compress to two megabytes.
// With the default limits, the process never holds one of them. Each of them fails, or holds its own key where the
// table cannot record the failure. All other rows flow.
func TestHugeRows(t *testing.T) {
	t.Parallel()
	const huge, rows, keys = 150_000_000, 1000, 10
	b := newNATS(t, endpoint(t, "TEST_NATS_URL"))
	type row struct{ storage, payload, headers string }
	for kind, c := range map[string]struct {
		failedAt bool
		bad      []row
	}{
		"text": {true, []row{
			{"external", "repeat('x', $3::int)", "'{}'"},
			{"extended", "repeat('x', $3::int)", "'{}'"},
			{"extended", "left('none', $3::int)", "jsonb_build_object('h', repeat('x', $3::int))"},
		}},
		"jsonb": {false, []row{
			{"external", "to_jsonb(repeat('x', $3::int))", "'{}'"},
			{"extended", "to_jsonb(repeat('x', $3::int))", "'{}'"},
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bad := c.bad
			topic := b.topic(t)
			outbox := newShape(t,
				`create table outbox_messages (id bigint generated always as identity primary key, topic text not null, key text,
					payload `+kind+`,
				headers jsonb, attempt int not null default 1, last_error text, updated_at timestamptz, relayed_at timestamptz)`)
			if c.failedAt {
				outbox.Exec(t, "alter table outbox_messages add failed_at timestamptz")
			}
			some := func() {
				outbox.Exec(t,
					`insert into outbox_messages (topic, key, payload, headers) select $1, 'k' || i % $2, ('{"n": ' || i ||
						'}')::`+kind+`, '{}'
					from generate_series(1, $3::int) i`, topic, keys, rows)
			}
			some()
			for i, row := range bad {
				outbox.Exec(t, "alter table outbox_messages alter payload set storage "+row.storage)
				outbox.Exec(t, "insert into outbox_messages (topic, key, payload, headers) values ($1, $2, "+row.payload+", "+
					row.headers+")", topic,
					fmt.Sprint("huge", i), huge)
				outbox.Exec(t, "insert into outbox_messages (topic, key, payload, headers) values ($1, $2, '{}', '{}')", topic,
					fmt.Sprint("huge", i))
			}
			some()
			r := startRelay(t, outbox.env(b.url()))
			if c.failedAt {
				outbox.awaitRelayed(2*rows + len(bad))
				await(t, "the rows have failed",
					func() bool { return outbox.count(isFailed+" and last_error like '%OUTBOX_MAX_ROW_BYTES%'") == len(bad) })
			} else {
				outbox.awaitRelayed(2 * rows)
				await(t, "the rows are held", func() bool {
					return r.metric(`blocked_keys{destination="default"}`) == strconv.Itoa(len(bad))
				})
				some()
				outbox.awaitRelayed(3 * rows)
				last := pgtest.Value[string](t, outbox.Schema,
					"select string_agg(last_error, '; ') from outbox_messages where relayed_at is null")
				if strings.Count(last, "OUTBOX_MAX_ROW_BYTES") != len(bad) {
					t.Errorf("the reasons are %q", last)
				}
			}
			peak := r.peakMemory()
			t.Logf("at most %d MiB were resident", peak>>20)
			if peak >= huge {
				t.Errorf("at most %d bytes were resident, as much as a row takes", peak)
			}
			r.stop()
		})
	}
}

// peakMemory returns the largest resident size so far, in bytes.
func (r *relay) peakMemory() int64 {
	r.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID()))
	if err != nil {
		r.t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ = strings.Cut(peak, "kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(peak), 10, 64)
	if err != nil {
		r.t.Fatalf("the peak of resident memory: %v", err)
	}
	return kib << 10
}
