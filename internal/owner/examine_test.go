package owner

import (
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// Look shows the replicas that share the outbox, without taking part.
func TestLook(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	look := func() Peers {
		t.Helper()
		peers, err := Look(t.Context(), conn, s.Name, 4, "")
		if err != nil {
			t.Fatal(err)
		}
		return peers
	}
	if peers := look(); len(peers.Replicas) != 0 || peers.Owned != 0 {
		t.Errorf("before anybody came: %+v", peers)
	}
	a, _ := start(t, s.URL, s.Name, 4, 10*time.Second, nil)
	await(t, a, "all shards", func(state State) bool { return state.Owned.Len() == 4 })
	b, _ := start(t, s.URL, s.Name, 8, 10*time.Second, nil)
	await(t, b, "a note", func(state State) bool { return state.Note != "" })
	if peers := look(); !maps.Equal(peers.Replicas, map[int]int{4: 1, 8: 1}) || peers.Owned != 4 {
		t.Errorf("%+v", peers)
	}
	c, _ := startWith(t, s.URL, s.Name, 4, 10*time.Second, nil, func(o *Owner) { o.Mapping = "another" })
	await(t, c, "a note", func(state State) bool { return state.Note != "" })
	if peers := look(); !maps.Equal(peers.Replicas, map[int]int{4: 2, 8: 1}) || peers.Different != 1 {
		t.Errorf("with another mapping: %+v", peers)
	}
	if state, _ := a.State(); state.Replicas != 1 {
		t.Errorf("the onlooker was counted: %+v", state)
	}
}
