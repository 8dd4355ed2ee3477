package owner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// Replicas shows those that share a group, without taking part.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	look := func() (shown []string) {
		t.Helper()
		groups, err := Replicas(t.Context(), conn, s.Name, "", "audit_at")
		if err != nil || len(groups) != 2 {
			t.Fatalf("%+v, %v", groups, err)
		}
		for i, group := range groups {
			for _, r := range group {
				like := r.Like(4, "mapping")
				shown = append(shown, fmt.Sprintf("%d: %d of %d, %v, %v", i, r.Owned.Len(), r.Of(), r.Able(), like))
			}
		}
		slices.Sort(shown)
		return shown
	}
	if shown := look(); shown != nil {
		t.Errorf("before anybody came: %q", shown)
	}
	a, _ := start(t, s.URL, s.Name, 4, 10*time.Second, nil)
	await(t, a, "all shards", owns(4))
	b, _ := start(t, s.URL, s.Name, 8, 10*time.Second, nil)
	await(t, b, "a note", func(state State) bool { return state.Note != "" })
	c, _ := startWith(t, s.URL, s.Name, 4, 10*time.Second, nil, func(o *tested) { o.Mapping = "another" })
	await(t, c, "a note", func(state State) bool { return state.Note != "" })
	d, _ := startWith(t, s.URL, s.Name, 2, 10*time.Second, nil, func(o *tested) {
		o.Column, o.Unable = "audit_at", func() bool { return true }
	})
	await(t, d, "all shards", owns(2))
	want := []string{
		"0: 0 of 4, true, false", "0: 0 of 8, true, false", "0: 4 of 4, true, true",
		"1: 2 of 2, false, false",
	}
	if shown := look(); !slices.Equal(shown, want) {
		t.Errorf("%q, want %q", shown, want)
	}
	if state, _ := a.State(); state.Replicas != 1 {
		t.Errorf("the onlooker was counted: %+v", state)
	}
}
