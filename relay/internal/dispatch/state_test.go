package dispatch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// If there are many holds, the oldest are shown, whatever the order of the map.
func TestOldestHoldsAreShown(t *testing.T) {
	t.Parallel()
	hs, began := newHolds(), time.Now()
	for i := range 1000 {
		fate := publisher.Fate{Kind: publisher.FateTopic, Name: fmt.Sprintf("topic-%03d", i)}
		hs.byFate[fate] = &hold{
			fate: fate, cause: CauseTopology, err: errors.New("does not exist;\ncreate it"), since: began.Add(time.Duration(i/2) * time.Second),
			topics: []topic{{name: fate.Name}},
		}
	}
	shown := hs.shown()
	if len(shown) != mostHoldsShown {
		t.Fatalf("%d", len(shown))
	}
	for i, h := range shown {
		name := fmt.Sprintf("topic-%03d", i)
		if h.Topics[0] != name || h.What != h.Kind+" "+name || h.Reason != "topology" || h.Error() != "does not exist;; create it" {
			t.Errorf("%d: %+v: %s", i, h, h.Error())
		}
	}
}
