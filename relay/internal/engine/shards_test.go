package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// setOf returns a set of shards.
func setOf(shards ...int) (s owner.Set) {
	for _, shard := range shards {
		s.Add(shard)
	}
	return s
}

// loses makes the replica give a shard away; it comes back with [simReplica.gain].
func (p *simReplica) loses(shard int) {
	p.owned = p.owned.Without(setOf(shard))
	p.step()
}

// A shard is lost and comes back while the refusal of a row is being written. The younger rows of its key wait.
func TestShardComesBackWhileARefusalIsWritten(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	p := s.replicas[0]
	p.settles = true // the settler is busy
	row := s.add("k", "t", func(r *simRow) { r.refuse = 1 })
	s.until(t, func() bool { return len(p.todo) > 0 })
	p.loses(row.shard)
	p.gain(row.shard)
	s.add("k", "t", nil)
	s.run(s.at + time.Second)
	p.settles = false
	p.step()
	s.end(t)
}

// The same, where another row of the key cannot be marked: the shard lets go of that one, and not of the refusal.
func TestShardComesBackWhileARefusalIsWrittenBesideAnUnwritableMark(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = ms })
	p := s.replicas[0]
	guarded := s.add("k", "t", func(r *simRow) { r.guarded, r.mayRepeat = true, 1 })
	s.until(t, func() bool { return len(p.e.rejected.rows) > 0 })
	row := s.add("k", "t", func(r *simRow) { r.refuse = 1 })
	p.settles = true // the settler is busy
	s.until(t, func() bool { return len(p.todo) > 0 })
	p.leaving[row.shard] = p
	p.loses(row.shard)
	delete(p.leaving, row.shard)
	p.gain(row.shard)
	s.add("k", "t", nil)
	s.run(s.at + time.Second)
	guarded.guarded, p.settles = false, false
	p.step()
	s.end(t)
}

// A shard is gained while a page is being read that does not have its rows.
func TestShardGainedDuringARead(t *testing.T) {
	t.Parallel()
	s := aimed(func(s *sim) { s.took = 20 * ms })
	s.run(time.Second)
	p := s.replicas[0]
	row := s.insertIn(&simTx{}, "k", nil) // places the key
	p.loses(row.shard)
	s.add("k", "t", nil)
	s.run(s.at + time.Second)
	reads := s.reads[Tail]
	for key := range 10 { // some of other shards move the cursor
		s.add(fmt.Sprint("other", key), "t", nil)
	}
	s.until(t, func() bool { return s.reads[Tail] > reads })
	p.e.sweep.ended = s.now() // none finds the row soon
	p.gain(row.shard)
	s.run(s.at + 100*ms)
	s.add("k", "t", nil)
	s.end(t)
}
