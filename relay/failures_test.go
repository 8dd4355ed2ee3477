package relay

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
	"github.com/outbox-relay/outbox-relay/relay/internal/measure"
)

// relayedOf returns the numbers of the key's rows that were delivered, numbered as fill names them.
func relayedOf(s *sim, key string) []string {
	var ids []string
	for _, m := range s.All() {
		if string(m.Key) == key {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// With OUTBOX_ON_FAILED=block a key waits for its failed row, whatever made it fail, until the row is retried or
// discarded. The same holds at another replica. The other keys flow.
func TestFailedRowBlocksItsKey(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(*sim){
		"refused too often": func(s *sim) { s.Refuse("k2-3", 5) },
		"refused for good":  func(s *sim) { s.Answer("k2-3", publisher.PermanentError("no", "no")) },
	} {
		for _, discard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, discarded %v", name, discard), func(t *testing.T) {
				simulate(t, func(t *testing.T, s *sim) {
					s.destinations[0].BlockFailed = true
					n := s.fill(5, 10, "t")
					bad(s)
					stop := s.start()
					time.Sleep(2 * time.Minute)
					for range 2 {
						if got, want := len(relayedOf(s, "k2")), 3; got != want || len(s.All()) != n-7 {
							t.Fatalf("%d rows of the key were relayed, want %d; in all %d of %d", got, want, len(s.All()), n)
						}
						if held := s.destinations[0].snapshot(); held.Blocked != 1 || held.Held[engine.CauseBehindFailed] != 1 {
							t.Errorf("%d keys are blocked, held: %v", held.Blocked, held.Held)
						}
						stop()
						stop = s.start()
						time.Sleep(time.Minute)
					}
					defer func() { stop() }()
					s.Heal("k2-3")
					s.table.free("k2-3", discard)
					s.table.drained(t, 3*time.Second)
					checkOrder(t, s.All())
					if got, want := len(relayedOf(s, "k2")), 10; got != want && !(discard && got == want-1) {
						t.Errorf("%d rows of the key were relayed, want %d", got, want)
					}
					time.Sleep(10 * time.Second)
					synctest.Wait()
					if left := s.loop.engine.Leftover(); left != "" {
						t.Errorf("still remembered: %s", left)
					}
				})
			})
		}
	}
}

// A retried row after which nothing waits is also found soon, although it precedes the recent rows.
func TestRetriedRowIsFoundSoon(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.destinations[0].BlockFailed = true
		s.fill(5, 10, "t")
		s.Answer("k2-9", publisher.PermanentError("no", "no"))
		defer s.start()()
		time.Sleep(time.Minute)
		s.table.free("k2-9", false)
		s.table.drained(t, 3*time.Second)
	})
}

// A hint makes the relay look at the failed rows at once.
func TestHintFreesKeysAtOnce(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.destinations[0].BlockFailed = true
		s.fill(1, 10, "t")
		s.Answer("k0-3", publisher.PermanentError("no", "no"))
		defer s.start()()
		time.Sleep(time.Minute + time.Millisecond)
		s.table.free("k0-3", false)
		s.config.wake(measure.SourceListen, false)
		s.table.drained(t, 200*time.Millisecond)
	})
}

// A failed row blocks its key at the destination that is configured so, and at no other.
func TestFailedRowBlocksItsKeyAtItsDestination(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		audit := s.destination("audit", s.Broker, "audit")
		audit.BlockFailed = true
		s.destinations = []*Destination{audit, s.destinations[0]}
		s.table.insert(1, "continues", "a", "t")
		s.table.insert(2, "follows", "a", "audit")
		s.table.insert(3, "blocks", "b", "audit")
		s.table.insert(4, "elsewhere", "b", "t")
		s.table.insert(5, "waits", "b", "audit")
		s.table.insert(6, "no key", "", "audit")
		for _, id := range []string{"continues", "blocks", "no key"} {
			s.Answer(id, publisher.PermanentError("no", "no"))
		}
		defer s.start()()
		time.Sleep(time.Minute)
		if s.table.row("waits").relayed || !s.table.row("follows").relayed || !s.table.row("elsewhere").relayed {
			t.Error("the wrong key waits")
		}
		s.table.free("blocks", true)
		s.table.drained(t, 3*time.Second)
	})
}

// No row of a shard is taken before the shard's failed rows are known, however many pages of them there are.
func TestFailedRowsAreReadBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.destinations[0].BlockFailed = true
		const keys = 2007 // more than two pages of failed rows
		for i := range keys {
			id := fmt.Sprintf("failed-%05d", i)
			s.table.insert(int64(i), id, strconv.Itoa(i), "t")
			s.table.fail(id)
			s.table.insert(int64(i+keys), "waiting-"+strconv.Itoa(i), strconv.Itoa(i), "t")
		}
		s.table.insert(3*keys, "free", "free", "t")
		defer s.start()()
		time.Sleep(time.Minute)
		if got := s.All(); len(got) != 1 || got[0].ID != "free" {
			t.Errorf("%d rows were relayed", len(got))
		}
		for _, id := range s.table.failedRows() {
			s.table.free(id, true)
		}
		// so many are read every five seconds, unless a command says that it has changed some
		s.table.drained(t, 10*time.Second)
	})
}

// For a minute after a takeover, a page of pending rows is taken only after a look at what has failed. That look does
// not cost the more the more rows failed long ago, and the regular read of all failed rows comes to its end beside it:
// a key that is retried meanwhile goes on.
func TestManyFailedRowsAreNotReadForEachPage(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const failed = 5000
		s.destinations[0].BlockFailed = true
		s.limits = engine.Limits{Batch: 10, Rows: 20, Bytes: 1 << 20}
		for i := range int64(failed) {
			id := "failed" + strconv.FormatInt(i, 10)
			s.table.insert(i, id, id, "t")
			s.table.fail(id)
		}
		time.Sleep(time.Hour)
		counted := &countedFailed{simTable: s.table}
		cancel, done := s.startOn(counted)
		for i := range int64(30 * 50) {
			s.table.insert(failed+i, "row"+strconv.FormatInt(i, 10), "", "t")
			time.Sleep(20 * time.Millisecond)
			if i == 250 {
				s.table.free("failed0", false)
			}
		}
		if got := counted.rows.Load(); got > 45*failed {
			t.Errorf("%d failed rows were read in half a minute, of %d", got, failed)
		}
		if len(relayedOf(s, "failed0")) != 1 {
			t.Error("the retried row was not relayed")
		}
		cancel()
		<-done
	})
}

// countedFailed is a table that counts the failed rows that are read.
type countedFailed struct {
	*simTable
	rows atomic.Int64
}

func (c *countedFailed) Blocked(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	page, err := c.simTable.Blocked(ctx, q)
	c.rows.Add(int64(len(page.Keys)))
	return page, err
}

// A failed row that is retried while a page of pending rows waits for another read of the failed rows is missing from
// both results. The younger rows of its key in that page do not precede it.
func TestRetryWhileAPageWaits(t *testing.T) {
	t.Parallel()
	simulate(t, func(_ *testing.T, s *sim) {
		s.destinations[0].BlockFailed = true
		s.fill(2, 10, "t")
		const id = "k0-0"
		s.table.fail(id)
		s.checkRetriedFirst(id, 1, 10)
	})
}

// A failed row is retried while the tail scan is on its way to younger rows of its key and has met none of them. The
// tail scan starts again and meets the retried row first.
func TestRetryDuringATailScan(t *testing.T) {
	t.Parallel()
	simulate(t, func(_ *testing.T, s *sim) {
		s.destinations[0].BlockFailed = true
		s.limits = engine.Limits{Batch: 10, Rows: 20, Bytes: 1 << 20}
		s.table.took = 100 * time.Millisecond // so that the failed rows are read again during the tail scan
		const id, others = "old", 150
		s.table.insert(0, id, "key", "t")
		s.table.fail(id)
		for i := range int64(others) {
			s.table.insert(i, "other"+strconv.FormatInt(i, 10), "", "t")
		}
		s.table.insert(others, "young", "key", "t")
		s.checkRetriedFirst(id, 3, 2)
	})
}

// checkRetriedFirst relays while a failed row is retried after the given number of reads of pending rows, and checks
// that the row precedes the other rows of its key.
func (s *sim) checkRetriedFirst(id string, read, rows int) {
	s.t.Helper()
	cancel, done := s.startOn(&retryAt{simTable: s.table, id: id, read: read})
	s.table.drained(s.t, time.Minute)
	if got := relayedOf(s, string(s.table.row(id).message.Key)); len(got) != rows || got[0] != id {
		s.t.Errorf("the key's rows were relayed as %v", got)
	}
	cancel()
	<-done
}

// retryAt is a table in which a failed row is retried after a given number of reads of pending rows.
type retryAt struct {
	*simTable
	id   string
	read int
}

func (r *retryAt) Tail(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	page, err := r.simTable.Tail(ctx, q)
	if r.read--; r.read == 0 {
		r.free(r.id, false)
	}
	return page, err
}
