package report

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// An outage that a ping and a publish classify differently is logged once if both give the same text. Each cause is
// logged once, even if its text changes.
func TestOneOutageIsLoggedOnce(t *testing.T) {
	var c Outage
	unavailable := func(short, text string) error {
		return publisher.UnavailableError(publisher.ScopeDestination, short, "%s", text)
	}
	for i, test := range []struct {
		err    error
		logged bool
	}{
		{unavailable("no answer", "what answers at h:1 is not a broker"), false},
		{unavailable("no broker", "what answers at h:1 is not a broker"), true},
		{unavailable("no broker", "what answers at h:2 is not a broker"), true},
		{unavailable("no answer", "h:3 does not answer"), true},
		{unavailable("login refused", "h:3 refuses the login"), false},
	} {
		if logged := c.Logged(test.err); logged != test.logged {
			t.Errorf("%d: %v logged already: %v", i, test.err, logged)
		}
	}
	c.Over()
	if c.Logged(unavailable("no broker", "what answers at h:1 is not a broker")) {
		t.Error("the next outage counts as logged")
	}
}
