package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// workTable counts the statements and rows that the relay asks of its table.
type workTable struct {
	*simTable
	mu         sync.Mutex
	statements int // reads and writes
	stuck      int // rows of the stuck key that were read
	others     int // other rows that were read
}

const stuckKey = "stuck"

func (w *workTable) Tail(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	page, err := w.simTable.Tail(ctx, q)
	if !q.Sweep {
		w.count(page.Rows)
	}
	return page, err
}

func (w *workTable) Keys(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	page, err := w.simTable.Keys(ctx, q)
	var rows []outbox.Row
	for _, k := range page.Keys {
		rows = append(rows, k.Rows...)
	}
	w.count(rows)
	return page, err
}

// count counts a read.
func (w *workTable) count(rows []outbox.Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statements++
	for i := range rows {
		if string(rows[i].Message.Key) == stuckKey {
			w.stuck++
		} else {
			w.others++
		}
	}
}

func (w *workTable) Settle(ctx context.Context, rows []*outbox.Row, free bool) (map[string]error, error) {
	w.mu.Lock()
	w.statements++
	w.mu.Unlock()
	return w.simTable.Settle(ctx, rows, free)
}

// work is the cost of relaying some rows of other keys.
type work struct {
	statements, stuck, others int
	slowest                   []time.Duration // time from insert to mark: of half of the rows, of 99 in 100
}

// insertOthers inserts rows of other keys for some time and returns the work done until all of them were relayed.
func insertOthers(t *testing.T, w *workTable, from, ticks int) work {
	t.Helper()
	w.mu.Lock()
	before := work{statements: w.statements, stuck: w.stuck, others: w.others}
	w.mu.Unlock()
	var ids []string
	pauses := rand.New(rand.NewPCG(1, 1)) // in step with the polls, all rows of a run would wait for the same part of one
	for i := range ticks {
		for j := range 10 {
			n := from + 10*i + j
			key := "k" + strconv.Itoa(n%97)
			ids = append(ids, fmt.Sprintf("%s-%d", key, n))
			w.insert(int64(n), ids[len(ids)-1], key, "t")
		}
		time.Sleep(time.Duration(50+pauses.IntN(100)) * time.Millisecond)
	}
	time.Sleep(time.Second)
	w.mu.Lock()
	done := work{
		statements: w.statements - before.statements, stuck: w.stuck - before.stuck,
		others: w.others - before.others,
	}
	w.mu.Unlock()
	var took []time.Duration
	for _, id := range ids {
		r := w.row(id)
		if !r.relayed {
			t.Fatalf("%s is still pending", id)
		}
		took = append(took, r.marked.Sub(r.message.Inserted))
	}
	slices.Sort(took)
	done.slowest = []time.Duration{took[len(took)/2], took[len(took)*99/100]}
	return done
}

// A key with very many rows after a refused head costs the other keys nothing: neither statements nor reads of their
// rows nor time, while it is stuck and when it is free again.
func TestStuckKeyCostsOthersNothing(t *testing.T) {
	t.Parallel()
	rows := 150_000
	if raceDetector {
		rows /= 150
	}
	const ticks = 300
	var alone work
	simulate(t, func(t *testing.T, s *sim) {
		s.limits = engine.Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
		w := &workTable{simTable: s.table}
		cancel, done := s.startOn(w)
		alone = insertOthers(t, w, rows, ticks)
		cancel()
		<-done
	})
	simulate(t, func(t *testing.T, s *sim) {
		s.limits = engine.Limits{Batch: 1000, Rows: 4096, Bytes: 64 << 20}
		s.destinations[0].MaxAttempts = 1 << 20
		s.destinations[0].BackoffMax = 5 * time.Second
		for i := range rows {
			s.table.insert(int64(i), fmt.Sprintf("%s-%d", stuckKey, i), stuckKey, "t")
		}
		s.Refuse(stuckKey+"-0", 10_000)
		w := &workTable{simTable: s.table}
		cancel, done := s.startOn(w)
		time.Sleep(10 * time.Second) // the tail scan passes the stuck rows once
		stuck := insertOthers(t, w, rows, ticks)
		s.Heal(stuckKey + "-0")
		freed := insertOthers(t, w, rows+10*ticks, ticks)
		s.table.drained(t, time.Minute)
		cancel()
		<-done
		checkOrder(t, s.All())
		t.Logf("alone %+v", alone)
		for name, w := range map[string]work{"stuck": stuck, "freed": freed} {
			t.Logf("%s %+v", name, w)
			if w.others > alone.others*21/20 {
				t.Errorf("%s: %d of their rows were read, alone %d", name, w.others, alone.others)
			}
			if w.statements > alone.statements*3/2 {
				t.Errorf("%s: %d statements, alone %d", name, w.statements, alone.statements)
			}
			for i, took := range w.slowest {
				if took > alone.slowest[i]+5*time.Millisecond {
					t.Errorf("%s: their rows took %v, alone %v", name, w.slowest, alone.slowest)
				}
			}
		}
	})
}
