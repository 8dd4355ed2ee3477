package settle

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/dispatch"
)

// A mark waits for destinations that have the row in flight or will reach it, and for no others. It waits at most a
// moment, and not at all during a stop. After some waits in vain it no longer waits, until both destinations have the
// same row in flight.
func TestWhatMarksWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		every := func(string) bool { return true }
		settlement := New(100, make([]Table, 3),
			[]func(string) bool{every, every, func(topic string) bool { return topic == "third" }}, nil, nil)
		defer settlement.Close()
		limits := dispatch.Limits{Rows: 100, Bytes: 1 << 20}
		flights := make([]*Writer, 3)
		for i := range flights {
			flights[i] = settlement.NewWriter(i, limits, nil, nil)
		}
		first, second := flights[0], flights[1]
		first.Reached(2)
		second.Reached(1)
		begin := func(state int, id string) *dispatch.Row {
			r := rowsNamed(id)[0]
			r.Position.Ordinal = 1
			r.Others = flights[state].Others("t")
			flights[state].Begin(r)
			return r
		}
		takes := func(want ...string) {
			t.Helper()
			settlement.mu.Lock()
			defer settlement.mu.Unlock()
			job := settlement.take()
			if got := idsOfOrders(job); !slices.Equal(got, want) {
				t.Errorf("written is %q, not %q", got, want)
			}
			if job != nil {
				settlement.mu.Unlock()
				settlement.done(job)
				settlement.mu.Lock()
			}
		}
		accept := func(w *Writer, r ...*dispatch.Row) { w.Write(dispatch.Outcome{Accepted: r}) }

		a := begin(0, "a")
		accept(first, a) // the second destination has passed it
		takes("a")

		b := begin(0, "b")
		other := begin(1, "b")
		accept(first, b)
		takes()
		accept(second, other)
		takes("b", "b")

		c := begin(0, "c")
		other = begin(1, "c")
		accept(first, c)
		second.End(other) // it waits for its broker, and is no longer in flight
		takes("c")

		begin(1, "d")
		accept(first, begin(0, "d"))
		time.Sleep(meetFor)
		takes("d")
		for _, id := range []string{"e", "f"} {
			r := begin(0, id)
			r.Position.Ordinal = 2 // the second destination has not reached it
			accept(first, r)
			takes()
			time.Sleep(meetFor)
			takes(id)
		}
		r := begin(0, "g")
		r.Position.Ordinal = 2
		accept(first, r)
		takes("g")
		h, other := begin(0, "h"), begin(1, "h")
		accept(second, other) // in step again
		takes()
		accept(first, h)
		takes("h", "h")

		settlement.joined(longJoin, time.Now()) // marks for both took long, so for some time none are made together
		begin(1, "j")
		accept(first, begin(0, "j"))
		takes("j")
		if settlement.joins(time.Now()) {
			t.Error("rows are marked for several destinations at once right after that took long")
		}
		time.Sleep(apartShare * longJoin)
		settlement.joined(longJoin-1, time.Now())
		if !settlement.joins(time.Now()) {
			t.Error("rows are marked for each destination by itself for ever")
		}
		begin(1, "i")
		accept(first, begin(0, "i"))
		takes()
		settlement.Hurry()
		takes("i")
	})
}
