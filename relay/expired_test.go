package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// expires sets the age after which the destinations' rows expire.
func (s *sim) expires(age time.Duration) {
	for _, d := range s.destinations {
		d.MaxAge = age
	}
}

// After an outage, rows that are too old fail instead of being published, and the other rows follow in order: with few
// keys or many, with rows without a key, and whatever the two clocks show. No expired row is passed to the unavailable
// broker, and none spends an attempt before it fails.
func TestOldRowsExpire(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{0, 1, 100} {
		for _, ahead := range []time.Duration{0, -time.Hour, time.Hour} {
			t.Run(fmt.Sprint(keys, " keys, clock ahead ", ahead), func(t *testing.T) {
				simulate(t, func(t *testing.T, s *sim) {
					const old, young = 1000, 300
					s.expires(time.Minute)
					s.table.ahead = ahead
					s.Down()
					add := func(from, n int) {
						for i := from; i < from+n; i++ {
							key := ""
							if keys > 0 {
								key = fmt.Sprint("k", i%keys)
							}
							s.table.insert(int64(i), fmt.Sprintf("r%05d", i), key, "t")
						}
					}
					add(0, old)
					defer s.start()()
					time.Sleep(50 * time.Second)
					if failed := s.table.failedRows(); len(failed) > 0 {
						t.Fatalf("%d rows failed before their time", len(failed))
					}
					add(old, young)
					time.Sleep(20 * time.Second)
					if n := len(s.table.failedRows()); n != old {
						t.Errorf("%d of %d rows have failed while the broker is away", n, old)
					}
					s.Up()
					s.table.drained(t, 20*time.Second)
					if got := len(s.All()); got != young {
						t.Errorf("%d of %d young rows were published", got, young)
					}
					if errs := s.disordered(); len(errs) > 0 {
						t.Error(errs)
					}
					if r := s.table.row("r00000"); len(r.lastError) < 7 || r.lastError[:7] != "expired" || r.attempt != 1 {
						t.Errorf("the error of attempt %d is %q", r.attempt, r.lastError)
					}
				})
			})
		}
	}
}

// A backlog of rows that are all too old fails as fast as it is read: nothing else wakes the loop meanwhile.
func TestBacklogExpiresAsItIsRead(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const old = 200
		s.expires(time.Minute)
		s.limits = engine.Limits{Batch: 2, Rows: 124, Bytes: 1024} // nothing is read before a batch is written
		for i := range old {
			s.table.insert(int64(i), fmt.Sprintf("r%05d", i), "", "t")
		}
		time.Sleep(2 * time.Minute)
		defer s.start()()
		s.table.drained(t, 20*time.Second)
		if n := len(s.table.failedRows()); n != old {
			t.Errorf("%d of %d rows have failed", n, old)
		}
	})
}

// So does the backlog of a single key: rows that come faster than its old ones fail one by one would never be
// published.
func TestBacklogOfAKeyExpires(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		const old = 10_000
		s.expires(time.Minute)
		for i := range old {
			s.table.insert(int64(i), fmt.Sprintf("r%05d", i), "k", "t")
		}
		time.Sleep(2 * time.Minute)
		defer s.start()()
		s.table.drained(t, 10*time.Second)
		if n := len(s.table.failedRows()); n != old {
			t.Errorf("%d of %d rows have failed", n, old)
		}
	})
}

// A row that is too old fails without a publish, and does not wait for the rate. It is not behind younger rows, of
// which one may be published.
func TestOldRowsDoNotWaitForTheRate(t *testing.T) {
	t.Parallel()
	for keys, young := range map[int]int{1: 0, 2000: 3} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				const old = 2000
				s.expires(time.Minute)
				s.destinations[0].Rate = 1. / 60
				for i := range int64(old) {
					s.table.insert(i, fmt.Sprintf("r%05d", i), fmt.Sprint("k", i%int64(keys)), "t")
				}
				time.Sleep(2 * time.Minute)
				for i := range int64(young) {
					s.table.insert(old+i, fmt.Sprintf("r%05d", old+i), "young", "t")
				}
				defer s.start()()
				time.Sleep(time.Minute - time.Second)
				if n := len(s.table.failedRows()); n != old {
					t.Errorf("%d of %d rows have failed", n, old)
				}
				if n := len(s.All()); n != min(young, 1) {
					t.Errorf("%d rows were published at once", n)
				}
			})
		})
	}
}

// disordered returns the rows that were published before an older row of their key.
func (s *sim) disordered() (wrong []string) {
	last := map[string]string{}
	for _, m := range s.All() {
		if key := string(m.Key); key != "" && m.ID < last[key] {
			wrong = append(wrong, m.ID)
		} else {
			last[key] = m.ID
		}
	}
	return wrong
}

// A row that waits for its next attempt, or for its topic, fails when it expires, and its key continues. Where failed
// rows block their keys, one row fails and the later rows of the key wait.
func TestRowsThatWaitExpire(t *testing.T) {
	t.Parallel()
	for _, block := range []bool{false, true} {
		t.Run(fmt.Sprint("block ", block), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				s.expires(10 * time.Second)
				d := s.destinations[0]
				d.BlockFailed, d.MaxAttempts = block, 1000
				s.Refuse("refused 1", 1000)
				s.Remove("missing")
				for i := range 2 {
					for _, kind := range []string{"refused", "missing"} {
						s.table.insert(int64(i), fmt.Sprint(kind, " ", i+1), kind,
							map[string]string{"refused": "t", "missing": "missing"}[kind])
					}
				}
				defer s.start()()
				time.Sleep(8 * time.Second)
				if failed := s.table.failedRows(); len(failed) > 0 {
					t.Fatalf("failed before their time: %q", failed)
				}
				time.Sleep(3 * time.Minute)
				s.Create("missing")
				want := "[missing 1 missing 2 refused 1 refused 2]"
				if block {
					want = "[missing 1 refused 1]"
				}
				if got := fmt.Sprint(s.table.failedRows()); got != want {
					t.Errorf("failed are %s, not %s", got, want)
				}
				if got := len(s.All()); got > 0 {
					t.Errorf("%d rows were published", got)
				}
				if block {
					s.table.free("refused 1", true)
					time.Sleep(time.Minute)
					if row := s.table.row("refused 2"); !row.failed {
						t.Error("the next row has not failed after the first was discarded")
					}
				}
			})
		})
	}
}

// Younger rows are published, even when they are read together with rows that are too old.
func TestYoungRowsOfAKeyGoOn(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.expires(time.Minute)
		for i := range 100 {
			s.table.insert(int64(i), fmt.Sprintf("r%05d", i), "k", "t")
		}
		time.Sleep(time.Hour)
		for i := range 100 {
			s.table.insert(int64(i+100), fmt.Sprintf("r%05d", i+100), "k", "t")
		}
		defer s.start()()
		s.table.drained(t, 10*time.Second)
		if failed, sent := len(s.table.failedRows()), len(s.All()); failed != 100 || sent != 100 || len(s.disordered()) > 0 {
			t.Errorf("%d rows have failed, %d were published: %q", failed, sent, s.disordered())
		}
	})
}

// Where failed rows block their keys, one row of a key fails at a time, however many of its queued rows are too old.
func TestOneRowOfAKeyExpiresAtATime(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T, s *sim) {
		s.expires(time.Minute)
		s.destinations[0].BlockFailed = true
		for i := range 100 {
			s.table.insert(int64(i), fmt.Sprintf("r%05d", i), "k", "t")
		}
		time.Sleep(time.Hour)
		defer s.start()()
		for i := range 3 {
			time.Sleep(time.Minute)
			if got := fmt.Sprint(s.table.failedRows()); got != fmt.Sprintf("[r%05d]", i) {
				t.Errorf("failed are %s", got)
			}
			s.table.free(fmt.Sprintf("r%05d", i), true)
		}
	})
}
