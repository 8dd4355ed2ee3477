package relay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

func (t *simTable) Read(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return t.readAs(ctx, q, (*simRow).sharded)
}

// sharded returns the row's shard as most replicas compute it.
func (r *simRow) sharded() int { return r.shard }

// readAs reads for a replica with a mapping of its own.
func (t *simTable) readAs(ctx context.Context, q outbox.Query, shard func(*simRow) int) (outbox.Page, error) {
	t.mu.Lock()
	t.reads++
	page := outbox.Page{Now: time.Now().Add(t.ahead), Snapshot: t.snapshot()}
	if q.Glance {
		t.glances++
		page = outbox.Page{More: slices.ContainsFunc(t.open, func(r *simRow) bool {
			return !r.available.After(time.Now()) && (q.Shards == nil || slices.Contains(q.Shards, shard(r)))
		})}
		q.IDs = []string{} // no row
	}
	t.gap()
	if q.Horizon {
		page.Horizon = &outbox.Horizon{Snapshot: page.Snapshot}
		for _, r := range slices.Backward(t.open) {
			if highest := r.ordinal; taken(ctx, r.message.Topic) && t.inOrder(r) {
				page.Horizon.Highest = &highest
				break
			}
		}
		t.gap()
	}
	var writers []uint32
	stepped, keys := 0, setOf(q.Keys)
	if q.Due || q.Glance {
		page.Next = t.nextDue()
	}
	for _, r := range t.ordered(q) {
		position := t.position(r)
		stepped++
		if !taken(ctx, r.message.Topic) {
			continue
		}
		switch {
		case q.IDs != nil && !slices.Contains(q.IDs, r.id),
			q.Keys != nil && (!keys[string(r.message.Key)] || q.From != nil && t.ordinal && r.ordinal < *q.From) &&
				(!q.NullKey || r.message.Key != nil),
			q.Recent != nil && r.ordinal < *q.Recent,
			q.Since != nil && (began(t.writerOf(r), q.Since.Oldest) || sameSnapshot(q.Since, &page.Snapshot)),
			q.Shards != nil && !slices.Contains(q.Shards, shard(r)),
			q.IDs == nil && !q.Due && !t.inOrder(r), r.available.After(time.Now()):
			continue
		}
		if q.Upto != nil && !position.Unordered() && r.ordinal >= *q.Upto ||
			q.Within != nil && (q.Within.Highest == nil || r.ordinal > *q.Within.Highest) {
			break
		}
		page.End = position
		row := outbox.Row{
			Message: r.message, Delayed: t.ReadsDue() && !r.available.IsZero(), Shard: shard(r), Position: position, Attempt: r.attempt,
			Due: r.message.Inserted.Add(t.ahead), Timed: !r.available.IsZero(),
		}
		writers = append(writers, t.writerOf(r))
		if r.lastError != "" {
			row.Retried, row.Waited = true, time.Since(r.updated)
		}
		page.Rows = append(page.Rows, row)
		page.Bytes += int64(row.Message.Size())
		if page.More = len(page.Rows) == q.Limit || page.Bytes >= q.Bytes; page.More {
			break
		}
	}
	if page.Ended = page.Snapshot; q.Ended || q.Within != nil {
		t.gap()
		page.Ended = t.snapshot()
	}
	q.LeaveOut(&page, writers)
	down, trouble := t.down, take(&t.trouble.reads)
	if q.Keys != nil && t.byKey && !q.NullKey || q.IDs != nil {
		stepped = len(page.Rows)
	}
	t.stepped += stepped
	took := t.took + time.Duration(stepped)*t.perRow
	if t.bytesPerSecond > 0 {
		took += time.Duration(page.Bytes) * time.Second / time.Duration(t.bytesPerSecond)
	}
	t.mu.Unlock()
	if trouble != inTime {
		return outbox.Page{}, trouble.until(ctx)
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		t.outOfTime.Add(1)
		return outbox.Page{}, &pgconn.PgError{Code: "57014"}
	}
	if down {
		return outbox.Page{}, errSimDown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.returned += len(page.Rows)
	for i := range page.Rows {
		if r := t.rows[page.Rows[i].ID()]; r.seen.IsZero() && !page.Rows[i].Beyond {
			r.seen = time.Now()
		}
	}
	return page, nil
}

// sameSnapshot reports whether no transaction has ended between two snapshots.
func sameSnapshot(a, b *outbox.Snapshot) bool {
	return a.Oldest == b.Oldest && a.Next == b.Next && slices.Equal(a.Running, b.Running)
}

func setOf(keys []string) map[string]bool {
	set := make(map[string]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set
}

// gap lets a moment pass between two statements of a read. The caller holds mu.
func (t *simTable) gap() {
	if t.gaps {
		t.mu.Unlock()
		time.Sleep(t.took / 4)
		t.mu.Lock()
	}
}

// from returns how many of the open rows precede all rows that the query asks for. The caller holds mu.
func (t *simTable) from(q outbox.Query) int {
	if !t.ordinal {
		return 0
	}
	from := q.After.Ordinal
	switch {
	case q.Recent != nil:
		from = *q.Recent
	case q.Keys != nil && q.From != nil:
		from = *q.From
	case q.After.IsZero():
		return 0
	}
	n, _ := slices.BinarySearchFunc(t.open, from, func(r *simRow, from int64) int { return cmp.Compare(r.ordinal, from) })
	return n
}

func (t *simTable) Failed(ctx context.Context, q outbox.Query) (outbox.FailedPage, error) {
	return t.failedAs(ctx, q, (*simRow).sharded)
}

func (t *simTable) failedAs(ctx context.Context, q outbox.Query, shard func(*simRow) int) (outbox.FailedPage, error) {
	t.mu.Lock()
	var page outbox.FailedPage
	var failed []*simRow
	for _, r := range t.rows {
		if r.failed && r.message.Key != nil && taken(ctx, r.message.Topic) && (q.Shards == nil || slices.Contains(q.Shards, shard(r))) &&
			(q.After.IsZero() || q.After.Before(outbox.At(r.ordinal, r.id))) &&
			(q.Back == 0 || time.Since(r.failures[len(r.failures)-1].from) <= q.Back) {
			failed = append(failed, r)
		}
	}
	slices.SortFunc(failed, func(a, b *simRow) int { return cmp.Compare(a.ordinal, b.ordinal) })
	for _, r := range failed[:min(q.Limit, len(failed))] {
		page.Rows = append(page.Rows, outbox.FailedRow{Key: string(r.message.Key), Topic: r.message.Topic, Ordinal: t.position(r).Ordinal})
		page.End = outbox.At(r.ordinal, r.id)
	}
	page.More = len(page.Rows) == q.Limit
	down, trouble := t.down, take(&t.trouble.reads)
	t.mu.Unlock()
	if trouble != inTime {
		return outbox.FailedPage{}, trouble.until(ctx)
	}
	time.Sleep(t.took)
	if down {
		return outbox.FailedPage{}, errSimDown
	}
	return page, nil
}

// readCount returns how many reads there were.
func (t *simTable) readCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads
}

// returnedCount returns how many rows all reads have returned.
func (t *simTable) returnedCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.returned
}

// looks returns how many reads there were, and how many of them were glances.
func (t *simTable) looks() (reads, glances int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads, t.glances
}

// setTook sets how long a read takes.
func (t *simTable) setTook(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = took
}

// work returns how long all reads took.
func (t *simTable) work() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Duration(t.reads)*t.took + time.Duration(t.stepped)*t.perRow
}
