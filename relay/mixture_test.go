package relay

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// mixture is a set of replicas whose last one computes other shards for the same keys, as after a change of OUTBOX_KEY.
// What package owner ensures is simulated: replicas of the other kind wait until cannot own shards.
type mixture struct {
	replicas []*simOwner
	other    bool // the last replica is of another kind
	nobody   *simOwner
	next     *simOwner // takes all when nobody owns anything
}

func newMixture(replicas []*simOwner, other bool) *mixture {
	return &mixture{replicas: replicas, other: other, nobody: newSimOwner(0)}
}

// table returns the table as the given replica understands it.
func (m *mixture) table(table *simTable, replica int) tableView {
	if m.kind(replica) {
		return &otherwise{table}
	}
	return table
}

func (m *mixture) kind(replica int) bool { return m.other && replica == len(m.replicas)-1 }

// beside reports whether two replicas may own shards at the same time.
func (m *mixture) beside(a, b int) bool { return m.next == nil && m.kind(a) == m.kind(b) }

// follow makes the present owners leave, so that a replica of another kind can acquire everything.
func (m *mixture) follow(next int) {
	if m.next == nil {
		m.next = m.replicas[next]
	}
}

// step continues a change of kind that follow began.
func (m *mixture) step() {
	if m.next == nil {
		return
	}
	for shard := range simShards {
		for _, r := range m.replicas {
			r.give(shard, m.nobody)
		}
	}
	if state, _ := m.nobody.State(); state.Owned == shardsBelow(simShards) {
		m.nobody.update(func() { m.nobody.state.Owned = owner.Set{} })
		m.next.update(func() { m.next.state.Owned = shardsBelow(simShards) })
		m.next = nil
	}
}

// otherwise is a table whose rows belong to other shards.
type otherwise struct{ *simTable }

func otherShard(r *simRow) int { return (r.shard + 1 + len(r.message.Key)%2) % simShards }

func otherwiseIn(ctx context.Context) context.Context {
	return context.WithValue(ctx, sharding{}, otherShard)
}

func (t *otherwise) Tail(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return t.simTable.Tail(otherwiseIn(ctx), q)
}

func (t *otherwise) Keys(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return t.simTable.Keys(otherwiseIn(ctx), q)
}

func (t *otherwise) Blocked(ctx context.Context, q outbox.Query) (outbox.Page, error) {
	return t.simTable.Blocked(otherwiseIn(ctx), q)
}

// Without the guard, schedules show that replicas of different kinds own shards at the same time.
func TestShardMovesShowReplicasThatDisagree(t *testing.T) {
	t.Parallel()
	const runs = 20
	seen := 0
	for seed := range uint64(runs) {
		simulate(t, func(_ *testing.T, s *sim) {
			if len(s.moveShards(rand.New(rand.NewPCG(seed, 1)), false)) > 0 {
				seen++
			}
		})
	}
	if seen < runs/2 {
		t.Errorf("seen in %d of %d schedules", seen, runs)
	}
}
