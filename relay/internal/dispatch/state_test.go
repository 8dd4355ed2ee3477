package dispatch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// openHolds opens a number of holds, each a second after the one before.
func openHolds(hs *holds, n int) (all []*hold) {
	began := time.Now()
	for i := range n {
		fate := publisher.Fate{Kind: publisher.FateTopic, Name: fmt.Sprintf("topic-%05d", i)}
		h := &hold{
			fate: fate, cause: CauseTopology, err: errors.New("does not exist;\ncreate it"), since: began.Add(time.Duration(i) * time.Second),
			topics: []publisher.Address{{Topic: fate.Name}}, logged: []string{"missing"},
		}
		hs.add(h)
		hs.logged++
		all = append(all, h)
	}
	return all
}

// If there are many holds, the oldest of those that have not ended are shown.
func TestOldestHoldsAreShown(t *testing.T) {
	t.Parallel()
	hs := newHolds()
	const ended = 700
	for _, h := range openHolds(&hs, 1000)[:ended] {
		hs.remove(h)
	}
	shown := hs.shown()
	if len(shown) != mostHoldsShown {
		t.Fatalf("%d", len(shown))
	}
	for i, h := range shown {
		name := fmt.Sprintf("topic-%05d", ended+i)
		if h.Topics[0] != name || h.What != h.Kind+" "+name || h.Reason != "topology" || h.Error() != "does not exist;; create it" {
			t.Errorf("%d: %+v: %s", i, h, h.Error())
		}
	}
	if len(hs.begun) > 2*(1000-ended)+mostHoldsShown || hs.logged != 1000-ended {
		t.Errorf("%d holds are remembered, and %d count as logged", len(hs.begun), hs.logged)
	}
}

// The state is published ten times a second, by the loop. What that takes does not depend on the number of holds.
func TestStateOfManyHoldsCostsTheSame(t *testing.T) {
	published := func(n int) float64 {
		d := testDispatch(t)
		openHolds(&d.holds, n)
		return testing.AllocsPerRun(10, func() { d.Snapshot() })
	}
	if few, many := published(100), published(10_000); many > few+20 { // other goroutines allocate, too
		t.Errorf("%.0f allocations with 10,000 holds, %.0f with 100", many, few)
	}
}
