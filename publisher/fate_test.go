package publisher_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

func TestFateOf(t *testing.T) {
	t.Parallel()
	partition := publisher.Fate{Kind: publisher.FatePartition, Name: "orders/3"}
	leaderless := publisher.UnavailableError(publisher.ScopeMessage, "no leader", "no leader")
	for name, test := range map[string]struct {
		err  error
		want publisher.Fate
		ok   bool
	}{
		"accepted":      {nil, publisher.Fate{}, false},
		"duplicate":     {&publisher.Duplicate{}, publisher.Fate{}, false},
		"not attempted": {publisher.ErrNotAttempted, publisher.Fate{}, false},
		"refused":       {publisher.RefusedError("refused", "refused"), publisher.Fate{}, false},
		"permanent": {
			publisher.WithFate(publisher.PermanentError("too large", "too large"), partition),
			publisher.Fate{},
			false,
		},
		"closed":       {publisher.ErrClosed, publisher.Fate{}, true},
		"unclassified": {errors.New("unclassified"), publisher.Fate{}, true},
		"no answer":    {publisher.AmbiguousError("no answer", "no answer"), publisher.Fate{}, true},
		"topology": {
			publisher.TopologyError("unknown topic", "unknown"),
			publisher.Fate{Kind: publisher.FateTopic, Name: "orders"},
			true,
		},
		"its key only": {leaderless, publisher.Fate{}, false},
		"named":        {publisher.WithFate(leaderless, partition), partition, true},
		"wrapped":      {fmt.Errorf("publish: %w", publisher.WithFate(leaderless, partition)), partition, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := publisher.FateOf(test.err, "orders"); got != test.want || ok != test.ok {
				t.Errorf("the fate is %v, %v, not %v, %v", got, ok, test.want, test.ok)
			}
		})
	}
	if f, ok := publisher.FateOf(leaderless, "orders"); ok {
		t.Errorf("WithFate has changed the answer that it was given: %v", f)
	}
}

func TestFateText(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]publisher.Fate{
		"destination":        {},
		"broker kafka-2:909": {Kind: publisher.FateBroker, Name: "kafka-2:909"},
		"topic orders":       {Kind: publisher.FateTopic, Name: "orders"},
		"partition orders/3": {Kind: publisher.FatePartition, Name: "orders/3"},
		"stream ORDERS":      {Kind: publisher.FateStream, Name: "ORDERS"},
		"exchange events":    {Kind: publisher.FateExchange, Name: "events"},
		"queue mail":         {Kind: publisher.FateQueue, Name: "mail"},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// An answer that is marked keeps its meaning, and an acceptance remains one.
func TestRepublish(t *testing.T) {
	t.Parallel()
	held := publisher.UnavailableError(publisher.ScopeTopic, "held", "held")
	silent := publisher.AmbiguousError("no answer", "no answer") // the copy of this try and one of an earlier try
	for _, err := range []error{nil, held, silent, publisher.PermanentError("no", "no")} {
		marked := publisher.Republish(err)
		if publisher.ClassOf(marked) != publisher.ClassOf(err) || publisher.ScopeOf(marked) != publisher.ScopeOf(err) ||
			!publisher.Republished(marked) || publisher.Republished(err) {
			t.Errorf("%v became %v", err, marked)
		}
	}
}
