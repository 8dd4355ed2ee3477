package nats_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

func TestPublishDenied(t *testing.T) {
	f := (&fake{publish: func(c *fakeConn, subject, reply, body string) {
		if strings.HasPrefix(subject, "denied") {
			c.say("-ERR 'Permissions Violation for Publish to %q'", subject)
			return
		}
		stores(c, subject, reply, body)
	}}).start(t)
	p := open(t, nats.Config{Servers: []string{f.address}})
	all := append(rows("denied.ä\"x'", 3), rows("allowed", 1)...)
	all[3].Key = []byte("other")
	for range 2 {
		answers := p.Publish(timely(t), all)
		expect(t, answers, publisher.Topology, publisher.NotAttempted, publisher.NotAttempted, publisher.Accepted)
		if scope := publisher.ScopeOf(answers[0]); scope != publisher.ScopeTopic {
			t.Errorf("the scope is %d, not ScopeTopic", scope)
		}
	}
}

// Each subject is refused once for each message, all at about the same time.
func TestManySubjectsDenied(t *testing.T) {
	f := (&fake{publish: func(c *fakeConn, subject, _, _ string) {
		c.say("-ERR 'Permissions Violation for Publish to %q'", subject)
	}}).start(t)
	p := open(t, nats.Config{Servers: []string{f.address}})
	p.BePatient(patience)
	all := rows("", 2000)
	for i := range all {
		all[i].Topic, all[i].Key = fmt.Sprint("denied.", i), nil
	}
	for i, err := range p.Publish(timely(t), all) {
		if publisher.ClassOf(err) != publisher.Topology {
			t.Fatalf("answer %d is %v", i, err)
		}
	}
}

func TestInboxDenied(t *testing.T) {
	var published atomic.Int64
	var allowed atomic.Bool
	f := (&fake{
		subscribe: func(*fakeConn, string) bool { return allowed.Load() },
		publish: func(c *fakeConn, subject, reply, body string) {
			if subject != info {
				published.Add(1)
			}
			stores(c, subject, reply, body)
		},
	}).start(t)
	p := open(t, nats.Config{Servers: []string{f.address}})
	answers := p.Publish(timely(t), rows("a", 2))
	expect(t, answers, publisher.Unavailable, publisher.Unavailable)
	if !strings.Contains(answers[0].Error(), "_INBOX") || !strings.Contains(answers[0].Error(), f.address) {
		t.Errorf("%q does not say what to do", answers[0])
	}
	if n := published.Load(); n > 0 {
		t.Errorf("%d messages were published that nobody can acknowledge", n)
	}
	allowed.Store(true)
	persist(t, p)
	expect(t, p.Publish(timely(t), rows("a", 2)), publisher.Accepted, publisher.Accepted)
}
