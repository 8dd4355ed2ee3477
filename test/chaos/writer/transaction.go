package writer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

// A shape describes a transaction to be written.
type shape struct {
	keys     map[int]int // rows by key
	free     int         // rows without a key
	hold     time.Duration
	rollback bool
}

// patience is how long a transaction may take in addition to the time for which it is held open.
const patience = 20 * time.Second

// ordered returns a transaction of one to three keys. One key in four is the hot one. Some transactions are held open.
func ordered(r *mathrand.Rand) shape {
	s := shape{keys: map[int]int{}, rollback: r.IntN(rollbacks) == 0}
	for range 1 + r.IntN(3) {
		k := r.IntN(keys)
		if r.IntN(4) == 0 {
			k = keys - 1
		}
		s.keys[k] += 1 + r.IntN(3)
	}
	if r.IntN(20) == 0 {
		s.hold = time.Duration(r.IntN(1500)) * time.Millisecond
	}
	return s
}

// unordered returns a transaction whose rows have no key and are committed late.
func unordered(r *mathrand.Rand) shape {
	return shape{
		free: 1 + r.IntN(5), rollback: r.IntN(rollbacks) == 0,
		hold: time.Duration(r.IntN(r.IntN(4000)+1)) * time.Millisecond,
	}
}

// transact writes one transaction and records the outcome of its rows.
//
// The number of a key is counted in its row of the table keys, which the transaction locks until it ends. Transactions
// of one key are therefore committed in the order in which their rows were numbered and their places in the outbox were
// drawn. Without such a lock no relay could know an order. Transactions without a key lock nothing, and commit in any
// order.
func (w *Writers) transact(ctx context.Context, r *mathrand.Rand, s shape) error {
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience+s.hold)
	defer cancel()
	transaction := w.log.begin()
	var rows []history.Row
	tx, err := w.pool.Begin(working)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(working) }() // does nothing after a commit
	if rows, err = w.insert(working, tx, r, s, transaction); err != nil {
		w.log.end(rows, history.RolledBack) // COMMIT was not even sent
		return err
	}
	wait(ctx, s.hold)
	if s.rollback {
		w.log.end(rows, history.RolledBack)
		return tx.Rollback(working)
	}
	if err := tx.Commit(working); err != nil {
		w.log.end(rows, history.Unknown)
		return fmt.Errorf("commit: %w", err)
	}
	w.log.end(rows, history.Committed)
	return nil
}

// insert inserts the rows of a transaction and returns the rows that it tried to insert.
func (w *Writers) insert(ctx context.Context, tx pgx.Tx, r *mathrand.Rand, s shape, transaction int) (
	[]history.Row, error,
) {
	var rows []history.Row
	batch := &pgx.Batch{}
	batch.Queue("insert into transactions (id) values ($1)", transaction)
	add := func(k int, number int) {
		row, headers, size := w.row(r, k, number, transaction)
		rows = append(rows, row)
		var key *string
		if row.Key != "" {
			key = &row.Key
		}
		payload := fmt.Sprintf(`{"id": "%s", "number": %d, "filler": "%s"}`, row.ID, number, strings.Repeat("x", size))
		batch.Queue("insert into outbox_messages (id, topic, key, payload, headers) values ($1, $2, $3, $4, $5)",
			row.ID,
			row.Topic, key, payload,
			headers)
	}
	for _, k := range slices.Sorted(maps.Keys(s.keys)) { // sorted, otherwise two transactions could wait for each other
		var last int
		err := tx.QueryRow(ctx, "update keys set number = number + $2 where key = $1 returning number", key(k),
			s.keys[k]).Scan(&last)
		if err != nil {
			return nil, fmt.Errorf("number rows: %w", err)
		}
		for number := last - s.keys[k] + 1; number <= last; number++ {
			add(k, number)
		}
	}
	for i := range s.free {
		add(-1, i+1)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return rows, fmt.Errorf("insert rows: %w", err)
	}
	return rows, nil
}

// row makes a row of a key, or a row without a key when k is negative.
func (w *Writers) row(r *mathrand.Rand, k, number, transaction int) (row history.Row, headers string, size int) {
	row = history.Row{ID: uuid(), Transaction: transaction, Number: number, Topic: w.Topics[0]}
	headers, size = `{"type": "test"}`, r.IntN(300)
	if k >= 0 {
		row.Key = key(k)
	}
	switch {
	case k < absentKeys && r.IntN(3) == 0:
		row.Topic = w.Absent[r.IntN(len(w.Absent))]
	case r.IntN(4) == 0:
		row.Topic = w.Topics[len(w.Topics)-1]
	}
	if r.IntN(w.Bads) == 0 {
		bad := w.Bad[r.IntN(len(w.Bad))]
		row.Bad, size = bad.Name, max(size, bad.Size)
		if bad.Topic != "" {
			row.Topic = bad.Topic
		}
		if bad.Headers != "" {
			headers = bad.Headers
		}
	}
	return row, headers, size
}

// uuid returns a random UUID, as PostgreSQL prints it.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}
