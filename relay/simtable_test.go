package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// simTable is an outbox in memory. Reads and writes take a little of the bubble's time, and a read sees the
// table as it was when it began, as in PostgreSQL.
type simTable struct {
	mu           sync.Mutex
	rows         map[string]*simRow
	open         []*simRow // neither relayed nor failed, in table order
	took         time.Duration
	down         bool
	held         chan struct{} // settling waits until it is closed
	lossy        int           // writes that succeed and are answered with an error
	guarded      string        // a trigger lets nobody write this row
	locked       map[string]bool
	settles      int    // calls that marked something
	transactions uint32 // begun, from 10 on
	running      []uint32
	present      uint32 // the transaction that adds rows
	reads        int

	ordinal, ranked, keepsFailures, keepsAttempts bool
}

type simRow struct {
	id          string
	ordinal     int64
	shard       int
	message     publisher.Message
	attempt     int64
	relayed     bool
	failed      bool
	failures    []span // when it was failed
	discarded   bool
	lastError   string
	updated     time.Time
	relays      int // times that it was marked
	marked      time.Time
	seen        time.Time // when a read returned it first
	drawn       time.Time // when its ordinal was drawn; zero: when it was committed
	committed   time.Time
	transaction uint32
}

// span is a time between two events; the second may be still to come.
type span struct{ from, to time.Time }

func newSimTable() *simTable {
	return &simTable{rows: map[string]*simRow{}, took: time.Millisecond, transactions: 10, ordinal: true, keepsFailures: true, keepsAttempts: true}
}

// insert commits a row.
func (t *simTable) insert(ordinal int64, id, key, topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.transactions++
	t.present = t.transactions
	t.add(ordinal, id, key, topic)
}

// begin begins a transaction.
func (t *simTable) begin() (transaction uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.transactions++
	t.running = append(t.running, t.transactions)
	return t.transactions
}

// commit commits a transaction with what f adds.
func (t *simTable) commit(transaction uint32, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = slices.DeleteFunc(t.running, func(running uint32) bool { return running == transaction })
	t.present = transaction
	f()
}

// add adds a row to the present transaction. The caller holds mu.
func (t *simTable) add(ordinal int64, id, key, topic string) {
	r := &simRow{id: id, ordinal: ordinal, shard: simShard(key, id), attempt: 1, committed: time.Now(), transaction: t.present, message: publisher.Message{ID: id, DedupID: id, Topic: topic, Payload: []byte(id), Inserted: time.Now()}}
	if key != "" {
		r.message.Key = []byte(key)
	}
	t.rows[id] = r
	t.reopen(r)
}

// reopen puts a row among the open ones. The caller holds mu.
func (t *simTable) reopen(r *simRow) {
	at, _ := slices.BinarySearchFunc(t.open, r, func(a, b *simRow) int {
		if t.position(a).Before(t.position(b)) {
			return -1
		}
		return 1
	})
	t.open = slices.Insert(t.open, at, r)
}

// close takes rows out of the open ones that are relayed or failed. The caller holds mu.
func (t *simTable) close() {
	t.open = slices.DeleteFunc(t.open, func(r *simRow) bool { return r.relayed || r.failed })
}

var (
	errSimDown           = errors.New("the database is down")
	errSimRejected error = &pgconn.PgError{Code: "23514"} // check_violation
	errSimLocked   error = &pgconn.PgError{Code: "55P03"} // lock_not_available
)

func (t *simTable) Read(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	t.mu.Lock()
	t.reads++
	page := outbox.Page{Snapshot: outbox.Snapshot{Oldest: t.transactions + 1, Next: t.transactions + 1, Running: slices.Clone(t.running)}}
	if len(t.running) > 0 {
		page.Snapshot.Oldest = t.running[0]
	}
	if q.Horizon {
		page.Horizon = &outbox.Horizon{Snapshot: page.Snapshot}
		if len(t.open) > 0 {
			highest := t.open[len(t.open)-1].ordinal
			page.Horizon.Highest = &highest
		}
	}
	for _, r := range t.open[t.start(q):] {
		position := t.position(r)
		switch {
		case q.IDs != nil && !slices.Contains(q.IDs, r.id),
			q.Keys != nil && (r.message.Key == nil || !slices.Contains(q.Keys, string(r.message.Key)) || q.From != nil && t.ordinal && r.ordinal < *q.From),
			q.Recent != nil && r.ordinal < *q.Recent,
			q.Shards != nil && !slices.Contains(q.Shards, r.shard),
			!q.After.IsZero() && !q.After.Before(position):
			continue
		}
		if q.Upto != nil && !position.Unordered() && r.ordinal >= *q.Upto || q.Within != nil && r.ordinal > *q.Within.Highest {
			break
		}
		page.End = position
		if q.Within != nil && !q.Within.Sees(r.transaction) {
			page.Beyond++
			continue
		}
		row := outbox.Row{Message: r.message, Shard: r.shard, Position: position, Attempt: r.attempt}
		if r.lastError != "" {
			row.Retried, row.Waited = true, time.Since(r.updated)
		}
		page.Rows = append(page.Rows, row)
		page.Bytes += int64(row.Message.Size())
		if page.More = len(page.Rows) == q.Limit || page.Bytes >= q.Bytes; page.More {
			break
		}
	}
	down := t.down
	t.mu.Unlock()
	time.Sleep(t.took)
	if down {
		return outbox.Page{}, errSimDown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range page.Rows {
		if r := t.rows[page.Rows[i].ID()]; r.seen.IsZero() {
			r.seen = time.Now()
		}
	}
	return page, nil
}

// start returns how many of the open rows come before all that the query asks for. The caller holds mu.
func (t *simTable) start(q outbox.Query) int {
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

// position is a row's place in table order. Without ordinals that is its id's alone.
func (t *simTable) position(r *simRow) outbox.Position {
	if t.ordinal {
		return outbox.At(r.ordinal, r.id)
	}
	return outbox.At(0, r.id)
}

func (t *simTable) Settle(ctx context.Context, rows []*outbox.Row) error {
	ids := idsOf(rows)
	if err := t.wait(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return errSimDown
	}
	if slices.ContainsFunc(ids, func(id string) bool { return t.locked[id] }) {
		t.mu.Unlock()
		time.Sleep(simLockPatience)
		t.mu.Lock()
		return errSimLocked
	}
	return t.mark(ids)
}

func idsOf(rows []*outbox.Row) (ids []string) {
	for _, r := range rows {
		ids = append(ids, r.ID())
	}
	return ids
}

const simLockPatience = 500 * time.Millisecond

// mark marks rows. The caller holds mu.
func (t *simTable) mark(ids []string) error {
	if slices.Contains(ids, t.guarded) {
		return errSimRejected
	}
	t.settles++
	for _, id := range ids {
		t.rows[id].relayed = true
		t.rows[id].relays++
		t.rows[id].marked = time.Now()
	}
	t.close()
	return t.lost()
}

func (t *simTable) SettleFree(ctx context.Context, rows []*outbox.Row) (locked []string, err error) {
	ids := idsOf(rows)
	if err := t.wait(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, errSimDown
	}
	var free []string
	for _, id := range ids {
		if t.locked[id] {
			locked = append(locked, id)
		} else {
			free = append(free, id)
		}
	}
	return locked, t.mark(free)
}

// lock lets an application keep those rows locked for which choose says so, and no others.
func (t *simTable) lock(choose func(id string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.locked = map[string]bool{}
	for _, r := range t.open {
		if choose(r.id) {
			t.locked[r.id] = true
		}
	}
}

// wait lets the time of a write pass.
func (t *simTable) wait(ctx context.Context) error {
	time.Sleep(t.took)
	t.mu.Lock()
	held := t.held
	t.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lost is the answer to a write that succeeded. The caller holds mu.
func (t *simTable) lost() error {
	if t.lossy > 0 {
		t.lossy--
		return errSimDown
	}
	return nil
}

// hold lets writes wait until release is called.
func (t *simTable) hold() (release func()) {
	held := make(chan struct{})
	t.mu.Lock()
	t.held = held
	t.mu.Unlock()
	return sync.OnceFunc(func() {
		t.mu.Lock()
		t.held = nil
		t.mu.Unlock()
		close(held)
	})
}

func (t *simTable) Refuse(ctx context.Context, refusals []outbox.Refusal) (written, locked []string, err error) {
	if err := t.wait(ctx); err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.down {
		return nil, nil, errSimDown
	}
	for _, x := range refusals {
		if x.ID == t.guarded {
			return nil, nil, errSimRejected
		}
	}
	for _, x := range refusals {
		r := t.rows[x.ID]
		if t.locked[x.ID] {
			locked = append(locked, x.ID)
			continue
		}
		if r.relayed || r.failed || r.attempt != x.Attempt {
			continue
		}
		if t.keepsAttempts {
			r.attempt = x.Attempt + 1
		}
		r.lastError, r.updated, r.failed = x.Error, time.Now(), x.Failed
		if x.Failed {
			r.failures = append(r.failures, span{from: time.Now()})
		}
		written = append(written, x.ID)
	}
	t.close()
	if err := t.lost(); err != nil {
		return nil, nil, err
	}
	return written, locked, nil
}

func (t *simTable) Failed(_ context.Context, q outbox.Query) (outbox.FailedPage, error) {
	t.mu.Lock()
	var page outbox.FailedPage
	var failed []*simRow
	for _, r := range t.rows {
		if r.failed && r.message.Key != nil && (q.Shards == nil || slices.Contains(q.Shards, r.shard)) && (q.After.IsZero() || q.After.Before(outbox.At(r.ordinal, r.id))) {
			failed = append(failed, r)
		}
	}
	slices.SortFunc(failed, func(a, b *simRow) int { return cmp.Compare(a.ordinal, b.ordinal) })
	for _, r := range failed[:min(q.Limit, len(failed))] {
		page.Rows = append(page.Rows, outbox.FailedRow{Key: string(r.message.Key), Topic: r.message.Topic, Ordinal: t.position(r).Ordinal})
		page.End = outbox.At(r.ordinal, r.id)
	}
	page.More = len(page.Rows) == q.Limit
	down := t.down
	t.mu.Unlock()
	time.Sleep(t.took)
	if down {
		return outbox.FailedPage{}, errSimDown
	}
	return page, nil
}

// failedRows returns the ids of the rows that have failed, in order.
func (t *simTable) failedRows() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []string
	for id, r := range t.rows {
		if r.failed {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// free retries a failed row, or discards it.
func (t *simTable) free(id string, discard bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[id]
	r.failed, r.failures[len(r.failures)-1].to = false, time.Now()
	if discard {
		r.discarded = true
		return
	}
	r.attempt, r.lastError = 1, ""
	t.reopen(r)
}

func (t *simTable) Ordinal() bool       { return t.ordinal }
func (t *simTable) Ranked() bool        { return t.ranked }
func (t *simTable) Delays() bool        { return false }
func (t *simTable) KeepsFailures() bool { return t.keepsFailures }
func (t *simTable) KeepsAttempts() bool { return t.keepsAttempts }

func (t *simTable) setDown(down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down = down
}

func (t *simTable) row(id string) simRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.rows[id]
}

// pending returns the ids of the rows that are neither relayed nor failed.
func (t *simTable) pending() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []string
	for _, r := range t.open {
		ids = append(ids, r.id)
	}
	return ids
}

// drained waits until nothing is pending.
func (t *simTable) drained(tb testing.TB, within time.Duration) {
	tb.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		ids := t.pending()
		if len(ids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d rows still pending after %v: %.200q", len(ids), within, ids)
		}
	}
}

// guard lets nobody write a row any more.
func (t *simTable) guard(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.guarded = id
}

// readCount returns how many reads there were.
func (t *simTable) readCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads
}

// settleCount returns how many calls marked something.
func (t *simTable) settleCount() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settles
}
