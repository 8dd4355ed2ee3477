package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at returns a time of the test's day.
func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// good is a history in which every promise was kept. Key a has the numbers 1 to 4 in two streams; 3 is a row that no
// broker takes. There are also key b, a row without a key and a rolled-back row. A replica was killed at 10 s, and row
// a1 was delivered again.
func good() *History {
	h := &History{
		MaxInFlight: 2, Grace: 5 * time.Second,
		Faults: []Fault{
			{Name: "stop", Began: at(2), Ended: at(3)},
			{Name: "kill", Began: at(10), Ended: at(11), Replicas: 1},
		},
	}
	add := func(id, key, topic string, number int, bad string, outcome Outcome) {
		h.Rows = append(h.Rows, Row{ID: id, Key: key, Topic: topic, Number: number, Bad: bad, Outcome: outcome})
		if outcome == Committed {
			f := Final{ID: id, Relayed: bad == "", Failed: bad != "", Attempt: 1}
			if bad != "" {
				f.Attempt, f.Error = 2, "refused"
			}
			h.Table = append(h.Table, f)
		}
	}
	add("a1", "a", "x", 1, "", Committed)
	add("a2", "a", "y", 2, "", Committed)
	add("a3", "a", "x", 3, "too large", Committed)
	add("a4", "a", "x", 4, "", Committed)
	add("b1", "b", "x", 1, "", Committed)
	add("b2", "b", "x", 2, "", Committed)
	add("n1", "", "x", 1, "", Committed)
	add("z1", "b", "x", 3, "", RolledBack)
	deliver := func(id, stream string, offset int64, seconds float64) {
		i := slices.IndexFunc(h.Rows, func(r Row) bool { return r.ID == id })
		r := h.Rows[i]
		h.Deliveries = append(h.Deliveries, Delivery{
			Stream: stream, Offset: offset, At: at(seconds), Exact: true, ID: id,
			Topic: r.Topic, Key: r.Key, Body: Body{ID: id, Number: r.Number},
		})
	}
	deliver("a1", "x/0", 0, 9)
	deliver("b1", "x/0", 1, 9.1)
	deliver("a1", "x/0", 2, 12)
	deliver("b2", "x/0", 3, 12.1)
	deliver("a4", "x/0", 4, 12.4)
	deliver("n1", "x/1", 0, 12.2)
	deliver("a2", "y/0", 0, 12.3)
	return h
}

func row(h *History, id string) *Row {
	return &h.Rows[slices.IndexFunc(h.Rows, func(r Row) bool { return r.ID == id })]
}

func final(h *History, id string) *Final {
	return &h.Table[slices.IndexFunc(h.Table, func(f Final) bool { return f.ID == id })]
}

func delivery(h *History, id string) *Delivery {
	return &h.Deliveries[slices.IndexFunc(h.Deliveries, func(d Delivery) bool { return d.ID == id })]
}

func without(h *History, id string) {
	h.Deliveries = slices.DeleteFunc(h.Deliveries, func(d Delivery) bool { return d.ID == id })
}

func again(h *History, id string, seconds float64) {
	d := *delivery(h, id)
	d.Offset, d.At = 100+int64(len(h.Deliveries)), at(seconds)
	h.Deliveries = append(h.Deliveries, d)
}

func TestAKeptPromiseIsNoViolation(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *History){
		"as it is": func(*History) {},
		"no time of arrival is known exactly, and a key looks late across streams": func(h *History) {
			for i := range h.Deliveries {
				h.Deliveries[i].Exact = false
			}
			delivery(h, "a4").At = at(12.2)
		},
		"relayed rows are deleted": func(h *History) {
			h.Deletes = true
			h.Table = slices.DeleteFunc(h.Table, func(f Final) bool { return f.Relayed })
		},
		"a duplicate of an older row after a younger one": func(h *History) { again(h, "b1", 13) },
		"a duplicate much later":                          func(h *History) { again(h, "b1", 60) },
		"a row without a key commits late": func(h *History) {
			h.Rows = append(h.Rows, Row{ID: "n0", Topic: "x", Number: 7, Outcome: Committed})
			h.Table = append(h.Table, Final{ID: "n0", Relayed: true, Attempt: 1})
			h.Deliveries = append(h.Deliveries,
				Delivery{Stream: "x/1", Offset: 9, ID: "n0", Topic: "x", Body: Body{"n0", 7}, At: at(40)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := good()
			change(h)
			if found := h.Judge(); len(found) > 0 {
				t.Errorf("%+v", found)
			}
		})
	}
}

// Each check fails when its promise is broken, and only then.
func TestABrokenPromiseIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(h *History)
		want   []Check
	}{
		{"a row never came and is pending", func(h *History) {
			without(h, "b2")
			final(h, "b2").Relayed = false
		}, []Check{Nothing, Unstuck}},
		{"a row was marked before it came, and never came", func(h *History) { without(h, "b2") }, []Check{Nothing, Marked}},
		{"a row was deleted and never came", func(h *History) {
			h.Deletes = true
			h.Table = slices.DeleteFunc(h.Table, func(f Final) bool { return f.Relayed })
			without(h, "b2")
		}, []Check{Nothing, Marked}},
		{"a row came and is not marked", func(h *History) { final(h, "b2").Relayed = false }, []Check{Unstuck}},
		{"a row failed although nothing is wrong with it", func(h *History) {
			without(h, "b2")
			*final(h, "b2") = Final{ID: "b2", Failed: true, Attempt: 6, Error: "no connection"}
		}, []Check{Nothing, Unspent}},
		{"an outage spent an attempt", func(h *History) { final(h, "b2").Attempt = 2 }, []Check{Unspent}},
		{"an outage left an error", func(h *History) { final(h, "b2").Error = "no connection" }, []Check{Unspent}},
		{"a rolled-back row came", func(h *History) {
			h.Deliveries = append(h.Deliveries,
				Delivery{Stream: "x/0", Offset: 9, ID: "z1", Topic: "x", Key: "b", Body: Body{"z1", 3}})
		}, []Check{Ghosts}},
		{"a row came that nobody wrote", func(h *History) {
			h.Deliveries = append(h.Deliveries, Delivery{Stream: "x/0", Offset: 9, ID: "who"})
		}, []Check{Ghosts}},
		{"a row came under another topic", func(h *History) { delivery(h, "b2").Topic = "y" }, []Check{Unchanged}},
		{"a row came under another key", func(h *History) { delivery(h, "b2").Key = "c" }, []Check{Unchanged}},
		{"a row came with another's payload", func(h *History) { delivery(h, "b2").Body.ID = "b1" }, []Check{Unchanged}},
		{"an older row of a key came later", func(h *History) {
			delivery(h, "b1").Offset, delivery(h, "b2").Offset = 3, 1
		}, []Check{Ordered}},
		{"an older row of a key came later to another topic", func(h *History) {
			delivery(h, "a2").At = at(12.5)
		}, []Check{Ordered}},
		{"a key is in two partitions", func(h *History) {
			delivery(h, "b2").Stream = "x/1"
		}, []Check{Ordered}},
		{"a row came again before any fault", func(h *History) { again(h, "b1", 9.5) }, []Check{Explained}},
		{"a row came again at a clean fault", func(h *History) { again(h, "b1", 2.5) }, []Check{Explained}},
		{"a row came again that had come long before the fault", func(h *History) {
			delivery(h, "b1").At = at(4.9)
			again(h, "b1", 12)
		}, []Check{Explained}},
		{"a row came twice long after the fault", func(h *History) {
			delivery(h, "n1").At = at(16.1)
			again(h, "n1", 17)
		}, []Check{Explained}},
		{"more rows came again than were in flight", func(h *History) {
			again(h, "b1", 12)
			again(h, "b1", 13)
		}, []Check{Bounded}},
		{"a bad row came", func(h *History) {
			h.Deliveries = append(h.Deliveries, Delivery{
				Stream: "x/0", Offset: 9, ID: "a3", Topic: "x", Key: "a", Body: Body{"a3", 3},
				At: at(12.35), Exact: true,
			})
		}, []Check{Refused, Ordered}},
		{"a bad row waits for ever", func(h *History) { final(h, "a3").Failed = false }, []Check{Unstuck}},
		{"a bad row is marked", func(h *History) {
			final(h, "a3").Failed, final(h, "a3").Relayed = false, true
		}, []Check{Marked}},
		{"a bad row was tried again and again", func(h *History) { final(h, "a3").Attempt = 6 }, []Check{Refused}},
		{"a bad row failed without a word", func(h *History) { final(h, "a3").Error = "" }, []Check{Refused}},
		{"a relay kept a transaction open", func(h *History) {
			h.Held = []Held{{"relay 1", time.Minute, "begin"}}
		}, []Check{Brief}},
		{"a relay crashed", func(h *History) { h.Exits = []Exit{{"relay 1", "ended by itself"}} }, []Check{Obedient}},
		{"an outcome is unknown", func(h *History) { row(h, "z1").Outcome = Unknown }, []Check{Complete}},
		{"a committed row is not in the table", func(h *History) {
			h.Table = slices.DeleteFunc(h.Table, func(f Final) bool { return f.ID == "b2" })
		}, []Check{Complete}},
		{"a rolled-back row is in the table", func(h *History) {
			h.Table = append(h.Table, Final{ID: "z1", Relayed: true, Attempt: 1})
		}, []Check{Complete}},
		{"a number is missing", func(h *History) {
			row(h, "b2").Number, delivery(h, "b2").Body.Number = 3, 3
		}, []Check{Complete}},
		{"nothing came", func(h *History) { h.Rows, h.Table, h.Deliveries = nil, nil, nil }, []Check{Meaningful}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := good()
			test.change(h)
			var found []Check
			for _, v := range h.Judge() {
				if !slices.Contains(found, v.Check) {
					found = append(found, v.Check)
				}
			}
			slices.Sort(found)
			slices.Sort(test.want)
			if !slices.Equal(found, test.want) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

// Two unclean faults whose times touch share one bound, which is the sum of theirs. Two whose times do not touch have a
// bound each.
func TestBoundOfSeveralFaults(t *testing.T) {
	t.Parallel()
	for second, want := range map[float64]int{12: 0, 40: 1} {
		h := good()
		h.Faults = append(h.Faults, Fault{Name: "cut", Began: at(second), Ended: at(second + 1), Replicas: 3})
		for range 4 {
			again(h, "b1", 13)
		}
		found := 0
		for _, v := range h.Judge() {
			if v.Check == Bounded {
				found++
			}
		}
		if found != want {
			t.Errorf("the second fault at %v s: %d violations of the bound, want %d", second, found, want)
		}
	}
}

func TestEvidenceShowsTheKeyAndTheFaults(t *testing.T) {
	t.Parallel()
	h := good()
	delivery(h, "b1").Offset, delivery(h, "b2").Offset = 3, 1
	found := h.Judge()
	if len(found) != 1 {
		t.Fatalf("%+v", found)
	}
	text := strings.Join(found[0].Evidence, "\n")
	for _, want := range []string{
		"b1 #3 in x/0", "b2 #1 in x/0",
		"fault 12:00:10.000 to 12:00:11.000: kill (unclean for 1)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := fmt.Sprint(h.Duplicates()); got != "1" {
		t.Errorf("%s duplicates", got)
	}
}
