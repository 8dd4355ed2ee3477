package operate

import (
	"slices"
	"testing"
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

// TestPlanOfDiscard: a discard deletes the rows that the plan says it would delete, and keeps the others, also those
// that have failed at two destinations and are done at both afterwards.
func TestPlanOfDiscard(t *testing.T) {
	t.Parallel()
	s, o := several(t)
	s.Exec(t, `insert into outbox_messages (topic, payload, relayed_at, failed_at, audit_failed, dead_at) values
		('a relayed', '{}', now(), null, now(), null), ('a pending', '{}', null, null, now(), null),
		('a both', '{}', null, now(), now(), now()), ('plain', '{}', null, now(), null, now())`)
	kept := []string{
		"orders a both keep", "orders plain keep", "audit a relayed keep", "audit a pending keep",
		"audit a both keep",
	}
	if got := planned(t, choose(t, o, Discard(true, "known"), Selection{})); !slices.Equal(got, kept) {
		t.Errorf("with --keep: %q", got)
	}
	choice := choose(t, o, Discard(false, ""), Selection{})
	plan := planned(t, choice)
	_, how := apply(t, choice)
	for i, action := range plan {
		plan[i] = map[byte]string{'e': action + "d", 'p': action[:len(action)-len("keep")] + "kept"}[action[len(action)-1]]
	}
	slices.Sort(plan)
	slices.Sort(how)
	want := []string{
		"audit a both kept", "audit a pending kept", "audit a relayed deleted", "orders a both kept", "orders plain deleted",
	}
	if !slices.Equal(how, want) || !slices.Equal(plan, how) {
		t.Errorf("planned %q, done %q", plan, how)
	}
}
