package dispatch

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// A key that fails while the failed rows are being read is not forgotten when the read ends.
func TestFailureDuringTheReadOfFailedRows(t *testing.T) {
	d := testDispatch(t)
	now := time.Now()
	d.Failures = &failures{}
	d.To.BlockFailed = true
	d.own(owner.All(1))
	if _, ok := d.Failures.next(now); !ok || d.shards.active != (owner.Set{}) {
		t.Fatal("rows are taken before the failed ones are known")
	}
	r := Row{Row: &of("t", 4)[0], key: key{text: "k"}}
	d.Failures.fails(&r)
	d.TakeFailed(outbox.FailedPage{}, true, now, now)
	if !d.Failures.known.has(r.key) || d.Failures.known.heads["k"].low != 4 {
		t.Error("the key is free")
	}
	if _, ok := d.Failures.next(now.Add(failedEvery)); !ok {
		t.Fatal("no second read")
	}
	d.TakeFailed(outbox.FailedPage{}, true, now, now)
	if w := d.waits.byKey[r.key.Hash()]; d.Failures.known.has(r.key) || w == nil || w.state != catching || w.low != 4 || d.catch.low != 4 {
		t.Errorf("the key is not free, or its rows are not brought: %+v", w)
	}
}

// From a number of keys on, memory does not grow, and no failed row is forgotten.
func TestFailedKeysAreBounded(t *testing.T) {
	var s failedKeys
	const keys = mostWaits + 5000
	for i := range keys {
		s.add(strconv.Itoa(i), int64(i))
	}
	if len(s.heads) != mostWaits {
		t.Errorf("%d keys are remembered one by one", len(s.heads))
	}
	var merged failedKeys
	merged.merge(s)
	for _, set := range []*failedKeys{&s, &merged} {
		for i := range keys {
			k := key{text: strconv.Itoa(i)}
			if !set.has(k) || set.heads[k.text].low > int64(i) || set.more != nil && set.least > mostWaits {
				t.Fatalf("key %d: known %v, head %+v", i, set.has(k), set.heads[k.text])
			}
		}
	}
	others := 0
	for i := range 1000 {
		if s.has(key{text: "other" + strconv.Itoa(i)}) {
			others++
		}
	}
	if others > 50 {
		t.Errorf("%d of 1000 other keys are taken for failed ones", others)
	}
}

// The more failed rows there are, the more rarely they are read again, except soon after a read has freed a key or a command has changed
// rows. What inserts hint at does not matter for many. A few failed rows are read every second.
func TestManyFailedRowsAreReadRarely(t *testing.T) {
	for keys, want := range map[int]time.Duration{
		10: failedEvery, failedPage: failedRarely, 20_000: 20 * time.Second, 100_000: time.Minute,
	} {
		d := testDispatch(t)
		now := time.Now()
		d.Failures = &failures{}
		d.To.BlockFailed = true
		d.own(owner.All(1))
		f := d.Failures
		read := func(keys int, meanwhile func()) (rest time.Duration) {
			t.Helper()
			due, _ := f.Due()
			if now = now.Add(max(0, due.Sub(now))); f.reading {
				t.Fatal("a read is under way")
			}
			if _, ok := f.next(now); !ok {
				t.Fatal("no read")
			}
			meanwhile()
			var page outbox.FailedPage
			for i := range keys {
				page.Rows = append(page.Rows, outbox.FailedRow{Key: strconv.Itoa(i), Ordinal: int64(i)})
			}
			started := now
			now = now.Add(40 * time.Millisecond)
			d.TakeFailed(page, true, started, now)
			due, _ = f.Due()
			return due.Sub(now)
		}
		nothing := func() {}
		if rest := read(keys, func() { f.Ask(true) }); rest > time.Second {
			t.Errorf("%d keys: %v after a command during the first read", keys, rest)
		}
		rest := read(keys, nothing)
		if keys >= failedPage {
			rest = read(keys, func() { f.Ask(false) })
		}
		if rest != want {
			t.Errorf("%d keys: the rest is %v, want %v", keys, rest, want)
		}
		if rest = read(keys-1, nothing); rest > time.Second {
			t.Errorf("%d keys: %v after a key was freed", keys, rest)
		}
		if rest = read(keys-1, func() { f.Ask(true) }); rest > time.Second {
			t.Errorf("%d keys: %v after a command during the read", keys, rest)
		}
		if rest = read(keys-1, f.notFailed); rest > time.Second {
			t.Errorf("%d keys: %v after a failure that was not written during the read", keys, rest)
		}
		read(keys-1, nothing)
		if f.Ask(true); f.due.Sub(now) > time.Second {
			t.Errorf("%d keys: %v after a command", keys, f.due.Sub(now))
		}
	}
}

// A failed row has the largest order value ('infinity'), and is discarded. A scan brings what its key waits for.
func TestKeyOfAFailedRowWithTheLargestOrderValueComesFree(t *testing.T) {
	d, now := testDispatch(t), time.Now()
	d.Failures = &failures{}
	d.own(owner.All(1))
	d.NextFailed(now)
	d.TakeFailed(outbox.FailedPage{Rows: []outbox.FailedRow{{Key: "k", Ordinal: math.MaxInt64}}}, true, now, now)
	now = now.Add(time.Hour)
	d.NextFailed(now)
	d.TakeFailed(outbox.FailedPage{}, true, now, now)
	if !d.ScanWanted() {
		t.Errorf("no scan is to bring anything: %s", d.Leftover())
	}
	d.Scanning()
	if d.Scanned(now); len(d.waits.byKey) > 0 {
		t.Errorf("the key waits on: %s", d.Leftover())
	}
}
