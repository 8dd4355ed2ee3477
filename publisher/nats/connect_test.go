package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
)

const info = "$JS.API.INFO"

// stores is a publish function for a fake that stores everything.
func stores(c *fakeConn, subject, reply, _ string) {
	if subject == info {
		c.answer(reply, `{"type":"io.nats.jetstream.api.v1.account_info_response","memory":0}`)
	} else {
		c.answer(reply, stored)
	}
}

func rows(topic string, n int) []publisher.Message {
	all := make([]publisher.Message, n)
	for i := range all {
		id := fmt.Sprint(i)
		all[i] = publisher.Message{ID: id, DedupID: id, Topic: topic, Key: []byte("k")}
	}
	return all
}

func timely(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// persist pings until a ping succeeds.
func persist(t *testing.T, p *nats.Publisher) {
	t.Helper()
	ctx := timely(t)
	for {
		err := p.Ping(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestLoginIsReadAgain(t *testing.T) {
	f := (&fake{publish: stores, login: func(user, password string) error {
		if user != "relay" || password != "rotated-secret" {
			return errors.New("Authorization Violation")
		}
		return nil
	}}).start(t)
	var password atomic.Value
	password.Store("old-secret")
	var unreadable atomic.Bool
	unreadable.Store(true)
	var log logtest.Log
	p := open(t, nats.Config{
		Servers: []string{f.address},
		Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Auth: func() (nats.Auth, error) {
			if unreadable.Load() {
				return nats.Auth{}, errors.New("open nats.password: permission denied")
			}
			return nats.Auth{User: "relay", Password: password.Load().(string)}, nil
		},
	})
	fails := func(with string) {
		t.Helper()
		err := p.Ping(timely(t))
		if err == nil || !strings.Contains(err.Error(), with) || !strings.Contains(err.Error(), f.address) {
			t.Errorf("ping says %v, not %q", err, with)
		}
		answers := p.Publish(timely(t), rows("a", 1))
		expect(t, answers, publisher.Unavailable)
		for _, text := range []string{err.Error(), answers[0].Error(), log.String()} {
			if strings.Contains(text, "secret") {
				t.Errorf("%q contains a secret", text)
			}
		}
	}
	fails("permission denied")
	unreadable.Store(false)
	if err := p.Ping(timely(t)); err == nil { // may still report the unreadable file
		t.Error("the old password is taken")
	}
	fails("correct user and password")
	password.Store("rotated-secret")
	persist(t, p)
	expect(t, p.Publish(timely(t), rows("a", 1)), publisher.Accepted)
	// Callers report failures: the relay reports each one once.
	if text := log.String(); strings.Count(text, "level=") != 1 {
		t.Errorf("the log has more than one line for the connection:\n%s", text)
	}
}

func TestPingWithoutJetStream(t *testing.T) {
	for name, test := range map[string]struct {
		publish func(c *fakeConn, subject, reply, body string)
		fails   bool
	}{
		"off": {func(c *fakeConn, _, reply, _ string) { c.nobody(reply) }, false},
		"off for the account": {func(c *fakeConn, _, reply, _ string) {
			c.answer(reply, `{"error":{"code":503,"err_code":10039,"description":"JetStream not enabled for account"}}`)
		}, false},
		"off in the server": {func(c *fakeConn, _, reply, _ string) {
			c.answer(reply, `{"error":{"code":503,"err_code":10076,"description":"JetStream not enabled"}}`)
		}, false},
		"without a leader": {func(c *fakeConn, _, reply, _ string) {
			c.answer(reply, `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`)
		}, true},
		"not to be asked": {func(c *fakeConn, subject, _, _ string) {
			c.say("-ERR 'Permissions Violation for Publish to %q'", subject)
		}, false},
		"something else answers": {func(c *fakeConn, _, reply, _ string) { c.answer(reply, "hello") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := (&fake{publish: test.publish}).start(t)
			p := open(t, nats.Config{Servers: []string{f.address}})
			for range 3 {
				err := p.Ping(timely(t))
				if (err != nil) != test.fails {
					t.Errorf("ping says %v", err)
				}
				if err != nil && !strings.Contains(err.Error(), f.address) {
					t.Errorf("%q does not name the server", err)
				}
			}
		})
	}
}

func TestPingNamesTheFault(t *testing.T) {
	nobody := (&fake{}).start(t)
	nobody.stop()
	for name, test := range map[string]struct {
		fake *fake
		with string
	}{
		"nobody listens": {nobody, "nothing listens"},
		"no NATS server": {(&fake{greeting: "220 mail.example ESMTP"}).start(t), "correct host and port"},
		"too many clients": {
			(&fake{login: func(string, string) error { return errors.New("maximum connections exceeded") }}).start(t),
			"maximum connections",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, nats.Config{Servers: []string{test.fake.address}})
			err := p.Ping(timely(t))
			if err == nil || !strings.Contains(err.Error(), test.with) || !strings.Contains(err.Error(), test.fake.address) {
				t.Errorf("ping says %v, which does not name the server and %q", err, test.with)
			}
			if publisher.ClassOf(err) != publisher.Unavailable || publisher.ScopeOf(err) != publisher.ScopeDestination {
				t.Errorf("%v is %v with scope %d", err, publisher.ClassOf(err), publisher.ScopeOf(err))
			}
		})
	}
}

// Other servers of the cluster are learned, and used when the configured one is gone.
func TestClusterFailover(t *testing.T) {
	second := (&fake{publish: stores}).start(t)
	first := (&fake{publish: stores, cluster: []string{second.address}}).start(t)
	p := open(t, nats.Config{Servers: []string{first.address}})
	expect(t, p.Publish(timely(t), rows("a", 1)), publisher.Accepted)
	first.stop()
	persist(t, p)
	expect(t, p.Publish(timely(t), rows("a", 1)), publisher.Accepted)
}

// Some errors of the server end the library's connection for good. Messages on the wire have an unknown outcome. The
// other messages of their keys were not sent.
func TestServerEndsTheConnection(t *testing.T) {
	var hostile atomic.Bool
	f := (&fake{publish: func(c *fakeConn, subject, reply, body string) {
		if hostile.Load() {
			c.say("-ERR 'Something New'")
			return
		}
		stores(c, subject, reply, body)
	}}).start(t)
	var log logtest.Log
	p := open(t, nats.Config{Servers: []string{f.address}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		persist(t, p)
		hostile.Store(true)
		answers := p.Publish(timely(t), rows("a", 2))
		expect(t, answers, publisher.Ambiguous, publisher.NotAttempted)
		hostile.Store(false)
	}
	persist(t, p)
	if n := strings.Count(log.String(), "lost the connection"); n != 3 {
		t.Errorf("%d losses were logged, not 3:\n%s", n, log.String())
	}
}

// A server that accepts connections and ends them at once is not dialled in a tight loop.
func TestServerThrowsOut(t *testing.T) {
	logins := make(chan time.Time, 100)
	f := (&fake{
		login:     func(string, string) error { logins <- time.Now(); return nil },
		subscribe: func(c *fakeConn, _ string) bool { c.say("PONG\r\nPONG"); _ = c.Close(); return true },
	}).start(t)
	p := open(t, nats.Config{Servers: []string{f.address}})
	if p.Publish(timely(t), rows("a", 1))[0] == nil {
		t.Error("a message was accepted")
	}
	first := <-logins
	for range 3 {
		<-logins
	}
	last := <-logins
	if took := last.Sub(first); took < (25+50+100+200)*time.Millisecond {
		t.Errorf("five connections within %v", took)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := nats.New(nats.Config{Servers: []string{"http://user:secret@host"}}); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong URL gives %v", err)
	}
}

// A row that is refused among 300 others does not affect them: each is sent once, and at once.
func TestRefusedRowCostsNobody(t *testing.T) {
	for name, spoil := range map[string]struct {
		change func(*publisher.Message)
		class  publisher.Class
	}{
		"too large":   {func(m *publisher.Message) { m.Payload = make([]byte, 2<<20) }, publisher.Permanent},
		"no stream":   {func(m *publisher.Message) { m.Topic = "nobody" }, publisher.Topology},
		"denied":      {func(m *publisher.Message) { m.Topic = "denied" }, publisher.Topology},
		"illegal":     {func(m *publisher.Message) { m.Topic = "a b" }, publisher.Permanent},
		"stream full": {func(m *publisher.Message) { m.Topic = "full" }, publisher.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			times := map[string]int{}
			f := (&fake{publish: func(c *fakeConn, subject, reply, body string) {
				switch subject {
				case "nobody":
					c.nobody(reply)
				case "denied":
					c.say("-ERR 'Permissions Violation for Publish to %q'", subject)
				case "full":
					c.answer(reply, `{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"S","seq":0}`)
				default:
					_, body, _ = strings.Cut(body, "\r\n\r\n")
					mu.Lock()
					times[body]++
					mu.Unlock()
					stores(c, subject, reply, body)
				}
			}}).start(t)
			p := open(t, nats.Config{Servers: []string{f.address}})
			if err := p.Ping(timely(t)); err != nil {
				t.Fatal(err)
			}
			all := hotRows("good", 301, 301)
			spoil.change(&all[150])
			begun := time.Now()
			answers := p.Publish(timely(t), all)
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("the call took %v", took)
			}
			mu.Lock()
			defer mu.Unlock()
			for i, err := range answers {
				switch {
				case i == 150:
					expect(t, answers[150:151], spoil.class)
					if spoil.class != publisher.Permanent && publisher.ScopeOf(err) != publisher.ScopeTopic {
						t.Errorf("%v reaches further than its topic", err)
					}
				case err != nil || times[fmt.Sprint(i)] != 1:
					t.Errorf("message %d was sent %d times: %v", i, times[fmt.Sprint(i)], err)
				}
			}
		})
	}
}
