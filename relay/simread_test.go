package relay

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// sharded returns the row's shard as most replicas compute it.
func (r *simRow) sharded() int { return r.shard }

// sharding is how a replica with a mapping of its own computes shards.
type sharding struct{}

// shardOf returns the row's shard as the reader computes it.
func shardOf(ctx context.Context, r *simRow) int {
	if of, ok := ctx.Value(sharding{}).(func(*simRow) int); ok {
		return of(r)
	}
	return r.sharded()
}

// simHash is the hash of a key, or of the id that stands for it.
func simHash(key []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(key)
	return h.Sum64()
}

// hash names a row's key for reads. Rows that have a read of their own for their time are keys by their ids.
func (t *simTable) hash(r *simRow) uint64 {
	if t.inOrder(r) {
		return r.hash
	}
	return r.idHash
}

func (t *simTable) visible() outbox.Visible {
	v := t.snapshot()
	v.Now = time.Now().Add(t.ahead)
	return v
}

// read returns a row as reads return it. The caller holds mu.
func (t *simTable) read(ctx context.Context, r *simRow) outbox.Row {
	row := outbox.Row{
		Message: r.message, Delayed: t.ReadsDue() && !r.available.IsZero(), Shard: shardOf(ctx, r), Position: t.position(r),
		Attempt: r.attempt,
		Due:     r.message.Inserted.Add(t.ahead), Timed: !r.available.IsZero(), Hash: t.hash(r), Writer: t.writerOf(r),
		After: true,
	}
	if r.lastError != "" {
		row.Retried, row.Waited = true, time.Since(r.updated)
	}
	return row
}

// pending reports whether a read may return a row: the reader takes its topic, its shard is asked for, and it is due.
// The caller holds mu.
func (t *simTable) isPending(ctx context.Context, r *simRow, due bool, shards []int) bool {
	return taken(ctx, r.message.Topic) && (shards == nil || slices.Contains(shards, shardOf(ctx, r))) &&
		due != t.inOrder(r) &&
		!r.available.After(time.Now())
}

// fits reports whether a row still fits in a page with some rows.
func fits(m *outbox.Most, rows int, bytes int64, r *outbox.Row) bool {
	size := bytes + int64(r.Message.Size())
	if rows == 0 {
		return size <= max(m.Bytes, m.First)
	}
	return rows < m.Rows && bytes < m.Bytes
}

func (t *simTable) Tail(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	if q.Sweep {
		return t.sweep(ctx, q)
	}
	t.mu.Lock()
	page := outbox.Page{Visible: t.visible()}
	if q.Due {
		page.Next = t.nextDue()
	}
	stepped, bytes := 0, int64(0)
	rows, order := t.ordered(q.Due)
	next := t.next(rows, order, q.After)
	first := next
	low := int64(math.MinInt64)
	if q.Low != nil && t.ordinal {
		low = min(*q.Low, q.After.Ordinal)
	}
	if q.Seen != nil {
		first = 0
		if !q.Due && !t.ranked {
			first = sort.Search(next, func(i int) bool { return rows[i].ordinal >= low })
		}
	}
	for i, r := range rows[first:] {
		later := first+i >= next
		if !later && r.ordinal < low {
			continue
		}
		if stepped++; !t.isPending(ctx, r, q.Due, q.Shards) {
			continue
		}
		if !later && q.Seen.Certain(t.writerOf(r), t.Exact(), q.Seen.FirstEnded(&page.Visible)) &&
			!r.available.After(q.Seen.Now.Add(-t.ahead)) {
			continue
		}
		row := t.read(ctx, r)
		row.After = later
		if !fits(&q.Most, len(page.Rows), bytes, &row) {
			if page.Full = true; len(page.Rows) == 0 {
				page.Wants = int64(row.Message.Size())
			}
			break
		}
		page.Rows = append(page.Rows, row)
		if bytes += int64(row.Message.Size()); len(page.Rows) == q.Rows {
			page.Full = true
			break
		}
	}
	if t.delays && t.readsDue && q.Due {
		stepped = len(page.Rows)
	}
	return page, t.answered(ctx, stepped, bytes, page.Rows)
}

// next returns the index of the first of some rows in an order that is after a position: 0 for the zero position.
func (t *simTable) next(rows []*simRow, order func(a, b *simRow) int, p outbox.Position) int {
	if p.IsZero() {
		return 0
	}
	after := t.places[p]
	return sort.Search(len(rows), func(i int) bool { return order(rows[i], after) > 0 })
}

func (t *simTable) Keys(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	t.mu.Lock()
	page := outbox.Page{Visible: t.visible()}
	n, bytes, full := 0, int64(0), false
	var all []outbox.Row
	for _, a := range q.Asks {
		k := outbox.KeyRows{All: true}
		rows := t.keyed[a.Hash]
		if t.ranked {
			rows = slices.SortedStableFunc(slices.Values(rows), t.rank)
		}
		for _, r := range rows {
			if t.hash(r) != a.Hash || !t.isPending(ctx, r, q.Due, nil) || a.From != nil && t.ordinal && r.ordinal < *a.From {
				continue
			}
			row := t.read(ctx, r)
			if len(k.Rows) == a.Limit || full || !fits(&q.Most, n, bytes, &row) {
				if k.All = false; n == 0 && !full {
					page.Wants = int64(row.Message.Size())
				}
				full = full || len(k.Rows) < a.Limit
				break
			}
			k.Rows = append(k.Rows, row)
			n++
			bytes += int64(row.Message.Size())
		}
		page.Keys = append(page.Keys, k)
		all = append(all, k.Rows...)
	}
	if page.Wants > 0 {
		page.Keys = nil
	}
	if !t.byKey {
		n = len(t.open)
	}
	return page, t.answered(ctx, n, bytes, all)
}

func (t *simTable) sweep(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	t.mu.Lock()
	page := outbox.Page{Visible: t.visible()}
	rows, order := t.ordered(false)
	first, end := t.next(rows, order, q.After), len(rows)
	if !q.Upto.IsZero() {
		end = t.next(rows, order, q.Upto)
	}
	for _, r := range rows[first:max(first, end)] {
		if !t.isPending(ctx, r, false, q.Shards) {
			continue
		}
		row := t.read(ctx, r)
		row.Message.Payload, row.Message.Headers = nil, nil
		page.Rows = append(page.Rows, row)
		if page.Full = len(page.Rows) == q.Rows; page.Full {
			break
		}
	}
	return page, t.answered(ctx, len(page.Rows), 0, nil)
}

func (t *simTable) Blocked(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	t.mu.Lock()
	var page outbox.Page
	var failed []*simRow
	for _, r := range t.rows {
		if r.failed && r.message.Key != nil && taken(ctx, r.message.Topic) &&
			(q.Shards == nil || slices.Contains(q.Shards, shardOf(ctx, r))) &&
			(q.After.IsZero() || q.After.Before(outbox.At(r.ordinal, r.id))) {
			failed = append(failed, r)
		}
	}
	slices.SortFunc(failed, func(a, b *simRow) int {
		return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.id, b.id))
	})
	for _, r := range failed[:min(q.Rows, len(failed))] {
		page.Rows = append(page.Rows, outbox.Row{
			Hash: r.hash, Shard: shardOf(ctx, r), Position: outbox.At(r.ordinal, r.id),
		})
	}
	page.Full = len(page.Rows) == q.Rows
	return page, t.answered(ctx, len(page.Rows), 0, nil)
}

// answered lets the time of a read pass that has stepped over some rows and returns some. It unlocks mu.
func (t *simTable) answered(ctx context.Context, stepped int, bytes int64, rows []outbox.Row) error {
	began := time.Now()
	t.reads++
	t.stepped += stepped
	down, trouble := t.down, take(&t.trouble.reads)
	took := t.took + time.Duration(stepped)*t.perRow
	if t.bytesPerSecond > 0 {
		took += time.Duration(bytes) * time.Second / time.Duration(t.bytesPerSecond)
	}
	t.mu.Unlock()
	if trouble != inTime {
		return trouble.until(ctx)
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		t.outOfTime.Add(1)
		return &pgconn.PgError{Code: "57014"}
	}
	if down {
		return errSimDown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.returned += len(rows)
	for i := range rows {
		if r := t.rows[rows[i].ID()]; r.seen.IsZero() {
			r.read, r.seen = began, time.Now()
		}
	}
	return nil
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
