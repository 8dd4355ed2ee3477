package owner

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// relaying starts a replica of some groups of a table, named by their columns.
func relaying(t *testing.T, s *pgtest.Schema, columns ...string) (groups map[string]*Group, o *tested, stop func()) {
	t.Helper()
	o = &tested{Owner: New(), table: s.Name}
	o.Shards, o.TTL, o.Logger = 16, 10*time.Second, slog.New(slog.DiscardHandler)
	o.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.URL) }
	groups = map[string]*Group{}
	var all []*Group
	for _, column := range columns {
		g := &Group{Column: column, Name: "destination " + column, Mapping: "mapping"}
		groups[column], all = g, append(all, g)
	}
	return groups, o, o.run(t, all...)
}

// Each group has owners of its own: a replica that relays one of two owns all of its shards, and one that relays both
// has a share of each.
func TestGroupsHaveOwnersOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	a, _, _ := relaying(t, s, "")
	await(t, a[""], "owns the table's columns", owns(16))
	b, _, _ := relaying(t, s, "audit_at")
	await(t, b["audit_at"], "owns the others", owns(16))
	if state, _ := a[""].State(); !owns(16)(state) || state.Replicas != 1 {
		t.Errorf("beside another group: %+v", state)
	}
	both, o, stop := relaying(t, s, "", "audit_at")
	for column, beside := range map[string]*Group{"": a[""], "audit_at": b["audit_at"]} {
		await(t, both[column], "has a share of "+column, owns(8))
		if state := await(t, beside, "gives a share of "+column, owns(8)); state.Replicas != 2 || state.Others != 0 {
			t.Errorf("%+v", state)
		}
	}
	if n := o.Replicas(); n != 2 {
		t.Errorf("%d replicas relay the group that has most, not 2", n)
	}
	stop()
	await(t, a[""], "takes over", owns(16))
	await(t, b["audit_at"], "takes over", owns(16))
}

// A replica owns the same shards of each group as far as it can, so that it can mark the rows for both at once.
// Replicas that take the shards of one that stops may take turns in another order for each group. That happens seldom.
func TestShardsOfGroupsGoTogether(t *testing.T) {
	t.Parallel()
	var together []int
	for range 4 {
		if together = append(together, shardsTogether(t)); slices.Max(together) >= 10 {
			return
		}
	}
	t.Errorf("%d of 16 shards have the same owner in both groups", together)
}

// shardsTogether makes one of four replicas stop, and returns how many shards have the same owner in both groups then.
func shardsTogether(t *testing.T) (together int) {
	t.Helper()
	s := pgtest.New(t)
	var replicas []map[string]*Group
	stops := make([]func(), 4)
	for i := range stops {
		var r map[string]*Group
		r, _, stops[i] = relaying(t, s, "", "audit_at")
		replicas = append(replicas, r)
		for _, r := range replicas {
			for _, g := range r {
				await(t, g, "shares", func(s State) bool { return s.Replicas == i+1 && s.Leaving == Set{} && s.Unowned == 0 })
			}
		}
	}
	stops[0]()
	for _, r := range replicas[1:] {
		for _, g := range r {
			await(t, g, "has its share", func(s State) bool { return s.Replicas == 3 && s.Unowned == 0 && s.Leaving == Set{} })
		}
	}
	for _, r := range replicas[1:] {
		x, _ := r[""].State()
		y, _ := r["audit_at"].State()
		together += x.Owned.And(y.Owned).Len()
	}
	return together
}

// A group of the table that no replica relays is reported after a while, and no longer when one does.
func TestGroupThatNobodyRelays(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	var log bytes.Buffer
	o, stop := startWith(t, s.URL, s.Name, 16, time.Second, nil, func(o *tested) {
		o.strangers = []*Group{{Column: "audit_at", Name: "audit"}, {Column: "mail_at", Name: "mail"}}
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	relaying(t, s, "mail_at")
	await(t, o, "owns", owns(16))
	unserved := func(want ...string) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
			var names []string
			states, _ := o.States()
			for _, s := range states {
				if !s.Unserved.IsZero() {
					names = append(names, s.Name)
				}
			}
			if fmt.Sprint(names) == fmt.Sprint(want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("nobody relays %q, want %q", names, want)
			}
		}
	}
	unserved("audit")
	_, _, leave := relaying(t, s, "audit_at")
	unserved()
	leave()
	unserved("audit")
	since := func() (at time.Time) {
		states, _ := o.States()
		for _, s := range states {
			if s.Name == "audit" {
				at = s.Unserved
			}
		}
		return at
	}
	before := since()
	stop()
	// A new term has new groups, which know since when.
	o.strangers = []*Group{{Column: "audit_at", Name: "audit"}, {Column: "mail_at", Name: "mail"}}
	stop = o.run(t, &Group{Name: "default", Mapping: "mapping"})
	unserved("audit")
	if after := since(); !after.Equal(before) {
		t.Errorf("nobody relays it since %v, and after a new term since %v", before, after)
	}
	stop()
	const told = "rows wait for a destination that no replica relays"
	if text := log.String(); strings.Count(text, told) != 2 || strings.Contains(text, "=mail ") {
		t.Errorf("the log says %s", text)
	}
}

// Replicas of different groups come and go. No two ever own the same shard of a group, and in the end each group has
// owners for all of its shards.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	const groups, rounds = 12, 12
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	column := func(i int) string {
		if i == 0 {
			return ""
		}
		return fmt.Sprintf("relayed_%d", i)
	}
	type running struct {
		groups map[string]*Group
		stop   func()
	}
	var all []running
	for range rounds {
		if len(all) > 4 || len(all) > 1 && random.IntN(3) == 0 {
			i := random.IntN(len(all))
			all[i].stop()
			all = append(all[:i], all[i+1:]...)
			continue
		}
		var columns []string
		for i := range groups {
			if len(all) == 0 || random.IntN(3) == 0 {
				columns = append(columns, column(i))
			}
		}
		r := running{}
		r.groups, _, r.stop = relaying(t, s, columns...)
		all = append(all, r)
		for c, g := range r.groups {
			await(t, g, "has looked at "+c, func(s State) bool { return s.Replicas > 0 })
		}
		checkApart(t, all[0].groups, all[1:], func(r running) map[string]*Group { return r.groups })
	}
	everything, _, _ := relaying(t, s, func() (columns []string) {
		for i := range groups {
			columns = append(columns, column(i))
		}
		return columns
	}()...)
	for c, g := range everything {
		await(t, g, "everything of "+c+" has an owner", func(s State) bool {
			return s.Replicas > 0 && s.Unowned == 0 && s.Leaving == Set{}
		})
	}
}

// checkApart checks that no two replicas trust that they own the same shard.
func checkApart[R any](t *testing.T, first map[string]*Group, others []R, groups func(R) map[string]*Group) {
	t.Helper()
	owned := map[string]Set{}
	add := func(of map[string]*Group) {
		for column, g := range of {
			state, _ := g.State()
			if state.Owned.And(owned[column]) != (Set{}) {
				t.Fatalf("two replicas own shards of %q", column)
			}
			owned[column] = owned[column].Or(state.Owned)
		}
	}
	add(first)
	for _, r := range others {
		add(groups(r))
	}
}
