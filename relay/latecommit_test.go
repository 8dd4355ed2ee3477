package relay

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
)

// A row that commits a little late is relayed at the next read although younger rows have already been relayed. A row
// that commits very late is found by the reconciliation scan.
func TestLateCommits(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.fill(5, 10, "t")
		stop := s.start()
		defer stop()
		s.table.drained(t, time.Second)
		for i, late := range []struct{ wait, within time.Duration }{
			{500 * time.Millisecond, 200 * time.Millisecond},
			{4 * time.Second, 12 * time.Second},
			{20 * time.Second, 12 * time.Second},
		} {
			s.table.insert(int64(1000+1000*i), "new"+strconv.Itoa(i), "", "t")
			time.Sleep(late.wait)
			s.table.insert(int64(999+1000*i), "late"+strconv.Itoa(i), "", "t")
			s.table.drained(t, late.within)
		}
		s.table.insert(1, "very late", "", "t")
		s.table.drained(t, 12*time.Second)
	})
}

// A row of a transaction that was open for longer than recent reads reach back stays before the younger row of its key,
// whether or not the key waits for something.
func TestLongTransactions(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]time.Duration{
		"a moment": time.Second, "a while": outbox.Late + time.Second, "a minute": time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				ordinal := int64(0)
				next := func() int64 { ordinal++; return ordinal }
				others := func(d time.Duration) {
					for ended := time.Now().Add(d); time.Now().Before(ended); time.Sleep(50 * time.Millisecond) {
						n := next()
						s.table.insert(n, "other-"+strconv.FormatInt(n, 10), "other", "t")
					}
				}
				stop := s.start()
				defer stop()
				others(20 * time.Second)
				first, second := s.table.begin(), s.table.begin()
				plain, waiting := next(), next()
				others(open)
				s.Refuse("waiting-3", 1)
				s.table.insert(next(), "waiting-3", "waiting", "t")
				others(100 * time.Millisecond)
				s.table.commit(first, func() { s.table.add(plain, "plain-1", "plain", "t") })
				s.table.insert(next(), "plain-2", "plain", "t")
				s.table.commit(second, func() { s.table.add(waiting, "waiting-1", "waiting", "t") })
				s.table.drained(t, time.Minute)
				at := map[string]int{}
				for i, m := range s.All() {
					at[m.ID] = i
				}
				if at["plain-1"] > at["plain-2"] || at["waiting-1"] > at["waiting-3"] {
					t.Errorf("delivered as %d, %d and %d, %d", at["plain-1"], at["plain-2"], at["waiting-1"], at["waiting-3"])
				}
			})
		})
	}
}

// A row that is changed during a tail scan looks as if it were new. The younger rows of its key do not precede it,
// whether the tail scan meets them later or they are relayed together with rows that are really new.
func TestRowsChangedDuringATailScan(t *testing.T) {
	t.Parallel()
	for name, changed := range map[string][]int64{
		"one": {250}, "the last ones": {399, 400},
		"many": {120, 121, 122, 250, 251, 399},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				for n := range int64(400) {
					s.table.insert(n+1, "old-"+strconv.FormatInt(n+1, 10), "key"+strconv.FormatInt(n%3, 10), "t")
				}
				stop := s.start()
				defer stop()
				time.Sleep(s.table.took * 3 / 2) // the first page has been read
				for _, n := range changed {
					s.table.change("old-" + strconv.FormatInt(n, 10))
				}
				for n := range int64(20) {
					s.table.insert(401+n, "new-"+strconv.FormatInt(401+n, 10), "key"+strconv.FormatInt(n%3, 10), "t")
				}
				s.table.drained(t, time.Second)
				last := map[string]int64{}
				for _, m := range s.All() {
					_, digits, _ := strings.Cut(m.ID, "-")
					n, _ := strconv.ParseInt(digits, 10, 64)
					if key := string(m.Key); n < last[key] {
						t.Errorf("%s: %d came after %d", key, n, last[key])
					} else {
						last[key] = n
					}
				}
			})
		})
	}
}

// Rows that were read are not read again while they are in flight or wait for their topic.
func TestRowsAreReadOnce(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.Remove("missing")
		stop := s.start()
		defer stop()
		const early, rows = 2000, 4000 // until the relay knows how far back a read must begin
		for n := range int64(rows) {
			if n == early {
				s.table.mu.Lock()
				s.table.returned = 0
				s.table.mu.Unlock()
			}
			s.table.insert(n+1, "m"+strconv.FormatInt(n+1, 10), "key"+strconv.FormatInt(n%500, 10), "missing")
			time.Sleep(5 * time.Millisecond)
		}
		s.table.mu.Lock()
		returned := s.table.returned
		s.table.mu.Unlock()
		if returned < rows-early || returned > 5*(rows-early) { // with the reconciliation scans and the probes
			t.Errorf("%d rows were returned by reads, of %d", returned, rows-early)
		}
	})
}

// The number after the last one that has ended is not necessarily the next one assigned: a transaction with a higher
// number may be running and may already have inserted a row. The mark that is made at the same time does not count as
// safe when it ends.
func TestTransactionsAfterTheSnapshot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ held, open time.Duration }{
		"a moment": {time.Second, time.Second}, "a while": {1500 * time.Millisecond, outbox.Late + 3*time.Second},
		"a while, nothing else ends": {outbox.Late + 3*time.Second, 0},
	} {
		for many, transactions := range map[string]int{"one": 1, "a hundred": 100} {
			t.Run(name+", "+many, func(t *testing.T) {
				simulate(t, func(t *testing.T, s *sim) {
					stop := s.start()
					defer stop()
					s.table.insert(1, "other-1", "other", "t")
					time.Sleep(2 * outbox.Late)
					lower, higher := s.table.begin(), make([]uint64, transactions)
					for i := range higher {
						higher[i] = s.table.begin()
					}
					s.Hold() // the relay's own marks have numbers too
					s.table.commit(lower, func() { s.table.add(int64(2+transactions), "other-2", "other", "t") })
					time.Sleep(test.held)
					if test.open > 0 {
						s.Release()
						time.Sleep(test.open)
					}
					for i, transaction := range higher {
						key := "k" + strconv.Itoa(i)
						s.table.commit(transaction, func() {
							s.table.add(int64(2+i), key+"-1", key, "t")
							s.table.add(int64(1000+i), key+"-2", key, "t")
						})
					}
					time.Sleep(500 * time.Millisecond) // the row is read
					s.Release()
					s.table.drained(t, time.Second) // not by a reconciliation scan
					checkOrder(t, s.All())
				})
			})
		}
	}
}

// A transaction that was open for a long time keeps its order also when it ends in the middle of a read. Such a read
// returns rows that no earlier snapshot contains. The same holds with savepoints.
func TestLongTransactionEndsDuringARead(t *testing.T) {
	t.Parallel()
	for name, savepoints := range map[string]bool{"plain": false, "savepoints": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.table.took = 100 * time.Millisecond
				stop := s.start()
				defer stop()
				ordinal := int64(0)
				next := func() int64 { ordinal++; return ordinal }
				other := func() { n := next(); s.table.insert(n, "other-"+strconv.FormatInt(n, 10), "other", "t") }
				for i := range 40 {
					other()
					time.Sleep(2 * outbox.Late)
					transaction, first, key := s.table.begin(), next(), "k"+strconv.Itoa(i)
					writers := [2]uint64{transaction, transaction}
					if savepoints {
						writers = [2]uint64{s.table.savepoint(transaction), s.table.savepoint(transaction)}
					}
					other()
					time.Sleep(2*outbox.Late + time.Duration(i)*7*time.Millisecond)
					s.table.commit(transaction, func() {
						for n, ordinal := range []int64{first, next()} {
							id := key + "-" + strconv.Itoa(n+1)
							s.table.add(ordinal, id, key, "t")
							*s.table.rows[id].writer = writers[n]
						}
					})
				}
				s.table.drained(t, time.Minute)
				checkOrder(t, s.All())
			})
		})
	}
}

// A transaction commits two rows of a key late, and another session changes the first of them during the tail scan that
// brings both. A younger row that was sent before is refused meanwhile. The second row does not go before the first.
func TestLateRowsOfOneTransaction(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.limits.Batch = 10
		x := s.table.begin()
		s.table.insert(500, "k-500", "k", "t")
		s.Refuse("k-500", 1)
		s.Hold()
		defer s.start()()
		time.Sleep(time.Second)
		s.table.setTook(10 * time.Millisecond)
		time.Sleep(time.Second)
		before := s.table.returnedCount()
		s.table.commit(x, func() {
			for n := int64(300); n < 460; n++ {
				key := "other" + strconv.FormatInt(n, 10)
				if n == 400 || n == 450 {
					key = "k"
				}
				s.table.add(n, key+"-"+strconv.FormatInt(n, 10), key, "t")
			}
		})
		returned := func(rows int) {
			for s.table.returnedCount() < before+rows {
				time.Sleep(time.Millisecond)
			}
		}
		returned(60)
		s.table.change("k-400")
		returned(120) // among them the one that was changed
		s.Release()
		s.table.drained(t, time.Minute)
		got := relayedOf(s, "k")
		if len(got) != 3 || slices.Index(got, "k-400")+1 != slices.Index(got, "k-450") {
			t.Errorf("relayed as %v", got)
		}
	})
}
