package relay

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// An outage that a ping meets as one thing and a publish as another is told once if both say the same of it; and each cause once, however
// its text changes.
func TestOneOutageIsToldOnce(t *testing.T) {
	var c complaint
	unavailable := func(short, text string) error {
		return publisher.UnavailableError(publisher.ScopeDestination, short, "%s", text)
	}
	for i, test := range []struct {
		err  error
		told bool
	}{
		{unavailable("no answer", "what answers at h:1 is no broker"), false},
		{unavailable("no broker", "what answers at h:1 is no broker"), true},
		{unavailable("no broker", "what answers at h:2 is no broker"), true},
		{unavailable("no answer", "h:3 does not answer"), true},
		{unavailable("login refused", "h:3 refuses the login"), false},
	} {
		if told := c.told(test.err); told != test.told {
			t.Errorf("%d: %v told already: %v", i, test.err, told)
		}
	}
	c.over()
	if c.told(unavailable("no broker", "what answers at h:1 is no broker")) {
		t.Error("the next outage counts as told")
	}
}
