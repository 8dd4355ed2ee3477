package history

import (
	"slices"
	"testing"
)

const early, late = "2026-01-01T12:00:01.000000Z", "2026-01-01T12:00:02.000000Z"

// several is a run in which every promise was kept. The destination orders takes topic x, bills takes topic y, and
// audit, which has columns of its own, takes both. Rows that fail at audit are sent to dead, and rows that orders has
// relayed to notice. Row a3 has failed at orders, and b2 twice at audit, because an operator retried it.
func several() *Run {
	h := good()
	r := &Run{Faults: h.Faults, Grace: h.Grace, Rows: h.Rows}
	r.Faults = append(r.Faults, Fault{Name: "cut", Began: at(100), Ended: at(101), Replicas: 1, Destination: "audit"})
	same := func(topic string) string { return topic }
	to := func(topic string) func(string) string { return func(string) string { return topic } }
	only := func(topic string) func(string) bool { return func(got string) bool { return got == topic } }
	all := func(string) bool { return true }
	r.Destinations = []Destination{
		{Name: "orders", Takes: only("x"), Topic: same, Topics: []string{"x"}},
		{Name: "bills", Takes: only("y"), Topic: same, Topics: []string{"y"}},
		{Name: "audit", Takes: all, Topic: to("audit"), Topics: []string{"audit"}},
		{
			Name: "dead", Takes: all, FailedOf: "audit", Topic: to("dead"), Topics: []string{"dead"},
			Spared: []string{"illegal"},
		},
		{Name: "notice", Takes: all, RelayedOf: "orders", Topic: to("notice"), Topics: []string{"notice"}},
	}
	row(h, "b2").Bad = "illegal"
	for i := range r.Destinations {
		d := &r.Destinations[i]
		d.MaxInFlight = 1
		for _, row := range r.Rows {
			if row.Outcome != Committed {
				continue
			}
			f := Final{ID: row.ID, Relayed: true, Attempt: 1}
			if row.Bad != "" && d.FailedOf == "" && d.RelayedOf == "" {
				f = Final{ID: row.ID, Failed: true, Attempt: 2, Error: "refused", FailedAt: late}
				d.Failures = append(d.Failures, Failure{ID: row.ID, At: late})
			}
			d.Table = append(d.Table, f)
		}
	}
	audit := r.Destinations[2]
	audit.Failures = append(audit.Failures, Failure{ID: "b2", At: early})
	r.Destinations[2] = audit
	*r.final("dead", "a3") = Final{ID: "a3", Failed: true, Attempt: 2, Error: "too large"}
	for _, id := range []string{"a1", "a4", "b1", "n1"} {
		r.deliver("orders", id)
	}
	r.deliver("bills", "a2")
	for _, id := range []string{"a1", "a2", "a4", "b1", "n1"} {
		r.deliver("audit", id)
	}
	for _, id := range []string{"a1", "a4", "b1", "n1"} {
		r.deliver("notice", id)
	}
	r.deliver("dead", "b2").Failure = early
	r.deliver("dead", "b2").Failure = late
	return r
}

func (r *Run) named(name string) *Destination {
	return &r.Destinations[slices.IndexFunc(r.Destinations, func(d Destination) bool { return d.Name == name })]
}

func (r *Run) final(name, id string) *Final {
	return final(&History{Table: r.named(name).Table}, id)
}

// deliver adds a delivery of a row at the end, three seconds after the fault at audit, and returns it.
func (r *Run) deliver(name, id string) *Delivery {
	d := r.named(name)
	written := *row(&History{Rows: r.Rows}, id)
	got := Delivery{
		Stream: "s", Offset: int64(len(r.Deliveries)), At: at(103), Exact: true, ID: id,
		Body: Body{id, written.Number},
	}
	if got.Topic = d.Topic(written.Topic); d.FailedOf == "" && d.RelayedOf == "" {
		got.Key = written.Key
	}
	r.Deliveries = append(r.Deliveries, got)
	return &r.Deliveries[len(r.Deliveries)-1]
}

// drop removes the deliveries of a row to a destination.
func (r *Run) drop(name, id string) {
	r.Deliveries = slices.DeleteFunc(r.Deliveries, func(d Delivery) bool {
		return d.ID == id && slices.Contains(r.named(name).Topics, d.Topic)
	})
}

func TestADestinationOfSeveralKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *Run){
		"as it is": func(*Run) {},
		"a row came again at the destination of the fault": func(r *Run) { r.deliver("audit", "b1") },
		"a failure that was cleared has no dead letter": func(r *Run) {
			r.drop("dead", "b2")
			r.deliver("dead", "b2").Failure = late
		},
		"no row has failed": func(r *Run) {
			r.named("audit").Failures = nil
			r.drop("dead", "b2")
			for _, id := range []string{"a3", "b2"} {
				row(&History{Rows: r.Rows}, id).Outcome = RolledBack
				for i := range r.Destinations {
					d := &r.Destinations[i]
					d.Table = slices.DeleteFunc(d.Table, func(f Final) bool { return f.ID == id })
				}
			}
			row(&History{Rows: r.Rows}, "a4").Number = 3
			for i := range r.Deliveries {
				if d := &r.Deliveries[i]; d.ID == "a4" {
					d.Body.Number = 3
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := several()
			change(r)
			if found := r.Judge(); len(found) > 0 {
				t.Errorf("%+v", found)
			}
		})
	}
}

// A promise that is broken at one destination is found there, and only there.
func TestABrokenPromiseIsFoundAtItsDestination(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(r *Run)
		want   []string
	}{
		{
			"a row came to one of two destinations", func(r *Run) { r.drop("audit", "a2") },
			[]string{"audit: " + string(Marked), "audit: " + string(Nothing)},
		},
		{
			"a row was marked in the columns of another destination", func(r *Run) { r.final("audit", "a2").Relayed = false },
			[]string{"audit: " + string(Unstuck)},
		},
		{"a row came to a destination that does not take it", func(r *Run) {
			d := r.deliver("bills", "a2")
			d.ID, d.Key, d.Body = "n1", "", Body{"n1", 1}
		}, []string{"bills: " + string(Ghosts)}},
		{"an outage of one destination spent an attempt at another", func(r *Run) {
			r.final("orders", "b1").Attempt = 2
		}, []string{
			"orders: " + string(Unspent),
		}},
		{"a row came again at another destination than that of the fault", func(r *Run) {
			r.deliver("orders", "b1")
		}, []string{
			"orders: " + string(Explained),
		}},
		{"an older row of a key came later to one destination", func(r *Run) {
			r.drop("audit", "a1")
			r.deliver("audit", "a1")
		}, []string{"audit: " + string(Ordered)}},
		{"more rows came again than one destination had in flight", func(r *Run) {
			r.deliver("audit", "b1")
			r.deliver("audit", "a1")
		}, []string{"audit: " + string(Bounded)}},
		{
			"a failure has no dead letter", func(r *Run) { r.drop("dead", "b2") },
			[]string{"dead: " + string(Marked), "dead: " + string(Nothing)},
		},
		{"the second failure has no dead letter", func(r *Run) {
			r.drop("dead", "b2")
			r.deliver("dead", "b2").Failure = early
		}, []string{"dead: " + string(Marked), "dead: " + string(Nothing)}},
		{"a dead letter of a failure that was not committed", func(r *Run) {
			r.deliver("dead", "b2").Failure = "2026-01-01T12:00:03.000000Z"
		}, []string{"dead: " + string(Ghosts)}},
		{"a dead letter came twice", func(r *Run) {
			r.deliver("dead", "b2").Failure = late
		}, []string{"dead: " + string(Explained)}},
		{"a dead letter waits for ever", func(r *Run) {
			r.final("dead", "a3").Failed = false
		}, []string{"dead: " + string(Unstuck)}},
		{"a notice of a row that has failed", func(r *Run) {
			r.deliver("notice", "a3")
		}, []string{"notice: " + string(Ghosts)}},
		{"no notice", func(r *Run) {
			r.drop("notice", "n1")
		}, []string{"notice: " + string(Marked), "notice: " + string(Nothing)}},
		{"a notice before its row", func(r *Run) {
			r.drop("orders", "n1")
			r.deliver("orders", "n1")
		}, []string{"notice: " + string(Afterwards)}},
		{"a topic that nobody publishes", func(r *Run) { r.deliver("dead", "b2").Topic = "who" }, []string{
			"orders: " + string(Refused), "orders: " + string(Unchanged),
		}},
		{"a replica crashed", func(r *Run) {
			r.Exits = []Exit{{"relay 1", "ended by itself"}}
		}, []string{": " + string(Obedient)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := several()
			test.change(r)
			var found []string
			for _, v := range r.Judge() {
				if text := v.Destination + ": " + string(v.Check); !slices.Contains(found, text) {
					found = append(found, text)
				}
			}
			slices.Sort(found)
			if slices.Sort(test.want); !slices.Equal(found, test.want) {
				t.Errorf("found %q, want %q\n%+v", found, test.want, r.Judge())
			}
		})
	}
}
