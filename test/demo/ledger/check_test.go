package ledger

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// Each fault of a delivery is found, and nothing else.
func TestCheck(t *testing.T) {
	t.Parallel()
	a1 := Row{ID: "a1", Seq: 1, Key: "a", Payload: `{"n": 1}`}
	b1 := Row{ID: "b1", Seq: 2, Key: "b", Payload: `{"n": 2}`}
	a2 := Row{ID: "a2", Seq: 3, Key: "a", Payload: `{"n": 3}`}
	a3 := Row{ID: "a3", Seq: 4, Key: "a", Payload: `{"n": 4}`}
	gone := Row{ID: "gone", Seq: 5, Key: "b", Payload: `{"n": 5}`}

	otherKey, otherPayload := a2, a2
	otherKey.Key, otherPayload.Payload = "b", `{"n": 4}`

	for name, test := range map[string]struct {
		arrived []Row
		want    map[Fault][]string
	}{
		"right":                    {[]Row{a1, b1, a2, a3}, nil},
		"keys overtake each other": {[]Row{b1, a1, a2, a3}, nil},
		"the last is missing":      {[]Row{a1, b1, a2}, map[Fault][]string{Missing: {"a3"}}},
		"two are missing":          {[]Row{b1, a3}, map[Fault][]string{Missing: {"a1", "a2"}}},
		"rolled back":              {[]Row{a1, b1, gone, a2, a3}, map[Fault][]string{Ghost: {"gone"}}},
		"never written":            {[]Row{a1, b1, a2, a3, {ID: "x", Key: "a"}}, map[Fault][]string{Stranger: {"x"}}},
		"never written, no id":     {[]Row{a1, b1, a2, a3, {Key: "a"}}, map[Fault][]string{Stranger: {""}}},
		"twice at once":            {[]Row{a1, a1, b1, a2, a3}, map[Fault][]string{Duplicate: {"a1"}}},
		"again after younger":      {[]Row{a1, b1, a2, a3, a2}, map[Fault][]string{Duplicate: {"a2"}}},
		"three times":              {[]Row{a1, b1, a2, a3, b1, b1}, map[Fault][]string{Duplicate: {"b1", "b1"}}},
		"neighbours swapped":       {[]Row{a1, b1, a3, a2}, map[Fault][]string{Reordered: {"a2"}}},
		"the last first":           {[]Row{a3, a1, b1, a2}, map[Fault][]string{Reordered: {"a1", "a2"}}},
		"another key":              {[]Row{a1, b1, otherKey, a3}, map[Fault][]string{Changed: {"a2"}}},
		"another payload":          {[]Row{a1, b1, otherPayload, a3}, map[Fault][]string{Changed: {"a2"}}},
		"lost and duplicated, which a count would not show": {
			[]Row{a1, a1, a2, a3},
			map[Fault][]string{Missing: {"b1"}, Duplicate: {"a1"}},
		},
		"nothing arrived": {nil, map[Fault][]string{Missing: {"a1", "a2", "a3", "b1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := New()
			for _, rows := range [][]Row{{a1, b1}, {a2, a3}} {
				l.Committing(rows)
				l.Committed(rows)
			}
			l.RolledBack([]Row{gone})
			for _, row := range test.arrived {
				l.Arrived(Arrival{ID: row.ID, Key: row.Key, Payload: row.Payload, At: time.Now()})
			}
			got := l.Check()
			if !maps.EqualFunc(got, test.want, slices.Equal) {
				t.Errorf("Check found %v, want %v", got, test.want)
			}
			for fault := range got {
				if !slices.Contains(AllFaults, fault) {
					t.Errorf("AllFaults lacks %q", fault)
				}
			}
			if got, want := l.Counts().Outstanding, len(test.want[Missing]); got != want {
				t.Errorf("%d rows are outstanding, want %d", got, want)
			}
		})
	}
}

// A row may arrive before the application learns that it is committed.
func TestArrivalBeforeCommitReturns(t *testing.T) {
	t.Parallel()
	l := New()
	rows := []Row{{ID: "1", Seq: 1}}
	l.Committing(rows)
	l.Arrived(Arrival{ID: "1", At: time.Now()})
	l.Committed(rows)
	if faults, counts := l.Check(), l.Counts(); len(faults) != 0 || counts.Outstanding != 0 || counts.Arrived != 1 {
		t.Errorf("faults %v, counts %+v", faults, counts)
	}
	if took := l.Latency(time.Time{}); took.Longest < 0 {
		t.Errorf("a latency of %v", took.Longest)
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	l := New()
	begin := time.Now()
	var rows []Row
	for i := range 200 {
		rows = append(rows, Row{ID: fmt.Sprint(i)})
	}
	l.Committing(rows)
	sent := l.rows["0"].sent
	for i, row := range rows {
		l.Arrived(Arrival{ID: row.ID, At: sent.Add(time.Duration(i+1) * time.Millisecond)})
	}
	if got, want := l.Latency(begin.Add(-time.Hour)), (Latency{
		100 * time.Millisecond, 198 * time.Millisecond,
		200 * time.Millisecond,
	}); got != want {
		t.Errorf("latency %v, want %v", got, want)
	}
	// Only rows that arrived after the given time count.
	if got, want := l.Latency(sent.Add(190*time.Millisecond)), 195*time.Millisecond; got.P50 != want {
		t.Errorf("p50 of the last ten is %v, want %v", got.P50, want)
	}
	if got := l.Latency(sent.Add(time.Hour)); got != (Latency{}) {
		t.Errorf("latency %v of nothing", got)
	}
}

// A destination may be for some of the rows, without their keys, and for dead letters, which must contain a reason.
func TestCheckOfSomeRows(t *testing.T) {
	t.Parallel()
	rows := []Row{
		{ID: "small", Seq: 1, Key: "k", Payload: "p"},
		{ID: "large", Seq: 2, Key: "k", Payload: "p", Large: true},
		{ID: "other", Seq: 3, Key: "k", Payload: "p", Large: true},
	}
	l := New()
	l.Wants, l.Keyless, l.Dead = func(r Row) bool { return r.Large }, true, true
	l.Committing(rows)
	l.Committed(rows)
	if c := l.Counts(); c.Committed != 2 || c.Outstanding != 2 {
		t.Errorf("%+v", c)
	}
	l.Arrived(Arrival{ID: "large", Payload: "p", Why: "too large"})
	if faults := l.Check(); len(faults) != 1 || len(faults[Missing]) != 1 {
		t.Errorf("%v", faults)
	}
	l.Arrived(Arrival{ID: "other", Payload: "p"})
	l.Arrived(Arrival{ID: "small", Payload: "p", Why: "it was lost"})
	if faults := l.Check(); len(faults) != 2 || len(faults[Unexplained]) != 1 || len(faults[Elsewhere]) != 1 ||
		l.Counts().Outstanding != 0 {
		t.Errorf("%v, %+v", faults, l.Counts())
	}
}
