package operate

import (
	"slices"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/sql"
)

// planned returns what a choice would do to each row, in order.
func planned(t testing.TB, c *Choice) (actions []string) {
	t.Helper()
	if err := c.Each(t.Context(), func(row Chosen) error {
		actions = append(actions, row.Destination+" "+row.Topic+" "+row.Action)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return actions
}

// TestPlanOfDiscard: the plan says which rows a discard would delete and which it would keep, also where one destination's discard
// is what lets another's delete the row.
func TestPlanOfDiscard(t *testing.T) {
	t.Parallel()
	s, o := several(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at, failed_at, audit_failed, dead_at) values
		('a relayed', '{}', now(), null, now(), null), ('a pending', '{}', null, null, now(), null),
		('a both', '{}', null, now(), now(), now()), ('plain', '{}', null, now(), null, now())`)
	kept := []string{"orders a both keep", "orders plain keep", "audit a relayed keep", "audit a pending keep", "audit a both keep"}
	if got := planned(t, choose(t, s, o, Discard(true, "known"), Selection{})); !slices.Equal(got, kept) {
		t.Errorf("with --keep: %q", got)
	}
	choice := choose(t, s, o, Discard(false, ""), Selection{})
	plan := planned(t, choice)
	_, how := apply(t, choice)
	for i, action := range plan {
		plan[i] = map[byte]string{'e': action + "d", 'p': action[:len(action)-len("keep")] + "kept"}[action[len(action)-1]]
	}
	slices.Sort(plan)
	slices.Sort(how)
	want := []string{
		"audit a both deleted", "audit a pending kept", "audit a relayed deleted", "orders a both kept", "orders plain deleted",
	}
	if !slices.Equal(how, want) || !slices.Equal(plan, how) {
		t.Errorf("planned %q, done %q", plan, how)
	}
}

// TestPlanOfRetry: the retry of a row empties the columns of its dead letter, so a dead letter that failed itself is not retried
// besides. In the other order it has been retried by then.
func TestPlanOfRetry(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]int{"dead letters last": 1, "dead letters first": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := several(t)
			orders := outbox.View{Name: "orders"}
			view := outbox.View{Name: "dead", Columns: map[string]string{"relayed_at": "dead_at", "failed_at": "audit_failed"}, FailedOf: &orders}
			table, err := outbox.Open(t.Context(), s.Pool, outbox.Config{
				Table: sql.Table{Name: "outbox_messages"}, Shards: 16, Views: []outbox.View{orders, view},
			})
			if err != nil {
				t.Fatal(err)
			}
			o.Views = nil
			for _, v := range []outbox.View{orders, view} {
				seen, err := table.For(v)
				if err != nil {
					t.Fatal(err)
				}
				o.Views = slices.Insert(o.Views, min(len(o.Views), dead), View{Destination: v.Name, Table: seen, Shared: v.Columns == nil})
			}
			s.Exec(t, `insert into outbox_messages (topic, payload, failed_at, audit_failed) values
				('both', '{}', now(), now()), ('origin', '{}', now(), null)`)
			choice := choose(t, s, o, Retry(), Selection{})
			rows := choice.Rows()
			if result, how := apply(t, choice); result.Changed != rows || result.Changed != int64(2+1-dead) {
				t.Errorf("%d rows planned, %+v: %q", rows, result, how)
			}
		})
	}
}
