package relay

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// simTable is an outbox in memory. Reads and writes take a little of the bubble's time, and a read sees the
// table as it was when it began, as in PostgreSQL.
type simTable struct {
	mu *sync.Mutex
	// the same rows in another destination's columns, with their own state there; nil without such a destination
	own            *simTable
	txid           bool // a column holds the inserting transaction
	rows           map[string]*simRow
	open           []*simRow            // neither relayed nor failed, in table order
	keyed          map[uint64][]*simRow // the same rows by the hashes of key and id, in table order
	took           time.Duration
	perRow         time.Duration // time that a read takes for each row that it steps over
	stepped        int           // rows that reads have stepped over
	byKey          bool          // there is an index by key
	down           bool
	held           chan struct{} // settling waits until it is closed
	lossy          int           // number of writes that succeed and are answered with an error
	guarded        string        // row that a trigger protects from all writes
	locked         map[string]bool
	inert          map[string]bool // rows on which a trigger makes writes have no effect
	settles        int             // calls that marked something
	joined         int             // rows that were marked here and in the other columns at once
	reads          int
	outOfTime      atomic.Int64 // number of them that took too long
	returned       int          // number of rows that reads returned
	trouble        simTrouble
	bytesPerSecond int           // throughput of the line; 0 for a fast one
	ahead          time.Duration // time by which the database's clock is ahead of the relay's
	*simTransactions

	ordinal, ranked, delays, keepsFailures, keepsAttempts bool
	textIDs                                               bool // only the database knows the order of ids
	forgetsErrors                                         bool // there is no last_error
	readsDue                                              bool // there is an index of due times; used if delays
	places                                                map[outbox.Position]*simRow
}

type simRow struct {
	id          string
	ordinal     int64
	shard       int
	hash        uint64 // of its key
	idHash      uint64 // of its id
	message     publisher.Message
	available   time.Time // zero: at once
	priority    int64
	attempt     int64
	relayed     bool
	failed      bool
	failures    []span // periods in which it was failed
	discarded   bool
	lastError   string
	updated     time.Time
	relays      int   // number of times that it was marked
	vain        int64 // number of refusals that could not be written
	marked      time.Time
	read, seen  time.Time // when a read that returned it first began, and ended
	drawn       time.Time // when its ordinal was drawn; zero: when it was committed
	committed   time.Time
	transaction uint64
	writer      *uint64 // the transaction that inserted or changed it last, for any destination
}

// span is the time between two events. The second event may be still to come.
type span struct{ from, to time.Time }

func newSimTable() *simTable {
	return &simTable{
		mu: &sync.Mutex{}, rows: map[string]*simRow{}, keyed: map[uint64][]*simRow{},
		took: time.Millisecond, simTransactions: newSimTransactions(),
		ordinal: true, keepsFailures: true, keepsAttempts: true,
	}
}

// also returns the same table as a destination with columns of its own sees it.
func (t *simTable) also() *simTable {
	t.own = newSimTable()
	t.own.mu, t.own.simTransactions = t.mu, t.simTransactions
	return t.own
}

// writerOf returns the transaction that seems to have inserted a row.
func (t *simTable) writerOf(r *simRow) uint64 {
	if t.txid {
		return r.transaction
	}
	return *r.writer
}

// insert commits a row.
func (t *simTable) insert(ordinal int64, id, key, topic string) {
	t.commit(t.begin(), func() { t.add(ordinal, id, key, topic) })
}

// grow gives an open row a payload of the given number of bytes.
func (t *simTable) grow(id string, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[id].message.Payload = make([]byte, size)
}

// change changes an open row, which keeps its place, as another session would.
func (t *simTable) change(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written(t.rows[id])
}

// written records that a separate transaction has changed a row. The caller holds mu.
func (t *simTable) written(r *simRow) {
	*r.writer = t.assign()
	t.end(*r.writer)
}

// begin begins a transaction.
func (t *simTable) begin() (transaction uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.start()
}

// commit commits a transaction together with the rows that f adds.
func (t *simTable) commit(transaction uint64, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(transaction)
	t.present = transaction
	f()
}

// add adds a row to the present transaction. The caller holds mu.
func (t *simTable) add(ordinal int64, id, key, topic string) {
	writer := t.present
	r := &simRow{
		id: id, ordinal: ordinal, shard: simShard(key, id), attempt: 1, committed: time.Now(), transaction: t.present,
		writer:  &writer,
		message: publisher.Message{ID: id, DedupID: id, Topic: topic, Payload: []byte(id), Inserted: time.Now()},
	}
	if key != "" {
		r.message.Key = []byte(key)
	}
	r.hash, r.idHash = simHash([]byte(cmp.Or(key, id))), simHash([]byte(id))
	for ; t != nil; t = t.own {
		own := *r
		t.rows[id] = &own
		if t.places == nil {
			t.places = map[outbox.Position]*simRow{}
		}
		t.places[t.position(&own)] = &own
		t.reopen(&own)
	}
}

// reopen puts a row among the open ones. The caller holds mu.
func (t *simTable) reopen(r *simRow) {
	insert := func(rows []*simRow) []*simRow { return slices.Insert(rows, t.placeAfter(rows, t.position(r)), r) }
	t.open = insert(t.open)
	for _, hash := range hashes(r) {
		t.keyed[hash] = insert(t.keyed[hash])
	}
}

// placeAfter returns the index of the first of some rows in table order that is after a position.
func (t *simTable) placeAfter(rows []*simRow, p outbox.Position) int {
	return sort.Search(len(rows), func(i int) bool { return p.Before(t.position(rows[i])) })
}

// hashes returns the hashes by which a row is found.
func hashes(r *simRow) []uint64 { return slices.Compact([]uint64{r.hash, r.idHash}) }

// close removes relayed and failed rows from the open ones. The caller holds mu.
func (t *simTable) close() {
	changed := map[uint64]bool{}
	closed := func(r *simRow) bool { return r.relayed || r.failed }
	t.open = slices.DeleteFunc(t.open, func(r *simRow) bool {
		if closed(r) {
			changed[r.hash], changed[r.idHash] = true, true
		}
		return closed(r)
	})
	for hash := range changed {
		if t.keyed[hash] = slices.DeleteFunc(t.keyed[hash], closed); len(t.keyed[hash]) == 0 {
			delete(t.keyed, hash)
		}
	}
}

var (
	errSimDown           = errors.New("the database is down")
	errSimRejected error = &pgconn.PgError{Code: "23514"} // check_violation
	errSimLocked   error = &pgconn.PgError{Code: "55P03"} // lock_not_available
)

func (t *simTable) Before(p, q outbox.Position) bool {
	if t.textIDs {
		return p.Ordinal < q.Ordinal
	}
	return p.Before(q)
}

// position is a row's place in table order. Without ordinals the place is the id alone.
func (t *simTable) position(r *simRow) outbox.Position {
	if t.ordinal {
		return outbox.At(r.ordinal, r.id)
	}
	return outbox.At(0, r.id)
}

// failedRows returns the ids of the failed rows, in order.
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

// fail marks a row as failed before any relay runs.
func (t *simTable) fail(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[id].failed, t.rows[id].failures = true, []span{{from: time.Now()}}
	t.close()
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
	t.written(r)
	t.reopen(r)
}

func (t *simTable) Ordinal() bool       { return t.ordinal }
func (t *simTable) Ranked() bool        { return t.ranked }
func (t *simTable) Delays() bool        { return t.delays && !t.readsDue }
func (t *simTable) ReadsDue() bool      { return t.delays && t.readsDue }
func (t *simTable) Timed() bool         { return false }
func (t *simTable) Exact() bool         { return t.txid }
func (t *simTable) KeyIndexed() bool    { return t.byKey }
func (t *simTable) KeepsFailures() bool { return t.keepsFailures }
func (t *simTable) KeepsAttempts() bool { return t.keepsAttempts }
func (t *simTable) KeepsErrors() bool   { return !t.forgetsErrors }

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
	ids := make([]string, 0, len(t.open))
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
