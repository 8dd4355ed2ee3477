package engine

import (
	"fmt"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A simBroker takes messages. Of each key it accepts a prefix of those that a call has.
type simBroker struct {
	*sim
	away    bool
	missing map[string]bool // topics
	down    map[string]bool // partitions: topic/number
	slow    time.Duration
	count   int
	perKey  int // rows of a key that a call takes; 0 for all
	bad     int // rows that were published in vain
}

// publish calls back with the answers. dead reports whether the caller has been killed.
func (b *simBroker) publish(rows []*Row, dead func() bool, done func([]error)) {
	took := b.upto(b.slow + 2*ms)
	for _, r := range rows {
		row := b.table.byID[r.ID()]
		row.hands = append(row.hands, b.at)
	}
	cut := len(rows)
	if b.one(20) {
		cut = b.IntN(len(rows) + 1) // the call ends early
	}
	arrive := b.upto(took)
	b.after(arrive, func() {
		killed, stop := dead(), len(rows)
		if killed {
			stop = b.IntN(len(rows) + 1)
		}
		answers := make([]error, len(rows))
		stopped, taken := map[uint64]bool{}, map[uint64]int{}
		for i, r := range rows[:stop] {
			k := r.Hash
			if taken[k]++; stopped[k] || i >= cut || b.perKey > 0 && taken[k] > b.perKey {
				answers[i] = publisher.ErrNotAttempted
				continue
			}
			row := b.table.byID[r.ID()]
			answers[i] = b.answer(row, r)
			stopped[k] = answers[i] != nil
			if class := publisher.ClassOf(answers[i]); class == publisher.Refused || class == publisher.Permanent {
				row.refused++
			}
			if answers[i] != nil {
				b.bad++
			}
		}
		if !killed {
			b.after(took-arrive, func() {
				if !dead() {
					done(answers)
				}
			})
		}
	})
}

func (b *simBroker) answer(row *simRow, r *Row) error {
	topic := r.Message.Topic
	part := fmt.Sprintf("%s/%d", topic, row.part)
	switch {
	case b.away:
		return publisher.UnavailableError(publisher.ScopeDestination, "away", "away")
	case b.missing[topic]:
		return publisher.TopologyError("missing", "missing")
	case b.down[part]:
		return publisher.WithFate(publisher.UnavailableError(publisher.ScopeMessage, "down", "down"),
			publisher.Fate{Kind: publisher.FatePartition, Name: part})
	case row.permanent:
		return publisher.PermanentError("permanent", "permanent")
	case row.poison, row.refuse > 0:
		row.refuse--
		return publisher.RefusedError("refused", "refused")
	case row.unknown > 0:
		row.unknown--
		row.mayRepeat++
		if row.arrives {
			b.deliver(row, r)
		}
		return &publisher.Error{
			Class: publisher.Ambiguous, Scope: publisher.Scope(2 * b.IntN(2)), Short: "lost",
			Err: fmt.Errorf("lost"),
		}
	}
	b.deliver(row, r)
	return nil
}

func (b *simBroker) deliver(row *simRow, r *Row) {
	b.count++
	if row.sent++; row.first == 0 {
		row.first = b.count
	} else if !row.touched {
		if row.mayRepeat == 0 {
			b.faultf("%s was delivered twice without a reason", row.id)
		}
		row.mayRepeat--
	}
	if row.sentAs == nil {
		row.sentAs = map[string]bool{}
	}
	row.sentAs[r.Extra[1]] = true
	if !row.visible {
		b.faultf("%s was delivered before it was committed", row.id)
	}
	b.logf("deliver %s", row.id)
}
