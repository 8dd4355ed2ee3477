package amqp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/oauth"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// serial is a source of tokens. A test sets which one is current.
type serial struct {
	current atomic.Int64
	fails   atomic.Bool
	mu      sync.Mutex
	refused []string
}

func (s *serial) Token(context.Context) (string, error) {
	if s.fails.Load() {
		return "", errors.New("the endpoint is away")
	}
	return fmt.Sprint("hush-", s.current.Load()), nil
}

func (s *serial) Refused(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, token)
}

// A new token is used by a new connection, without an effect on messages. While there is no new token, the old
// connection remains in use.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	f := newFake(t, listen(t), func(m *sent) { m.ack() })
	var log bytes.Buffer
	tokens := &serial{}
	p := amqp.New(amqp.Config{
		Tokens: tokens, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		URL: func() (string, error) { return fmt.Sprint("amqp://", f.listener.Addr(), "/shop"), nil },
	})
	t.Cleanup(func() { _ = p.Close() })
	for n := range int64(3) {
		tokens.current.Store(n)
		want := fmt.Sprint("\x00\x00hush-", n)
		await(t, func() bool {
			if err := p.Ping(within(t, 10*time.Second)); err != nil {
				t.Error(err)
			}
			all := f.connections()
			return all[len(all)-1].secret() == want
		})
		for _, err := range p.Publish(within(t, 10*time.Second), numbered(100, 3, "q")) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tokens.fails.Store(true)
	for range 3 {
		if err := p.Ping(within(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
		want(t, "a message without a new token", p.Publish(within(t, 10*time.Second), numbered(1, 0, "q"))[0],
			publisher.Accepted)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if n := len(f.connections()); n != 3 {
		t.Errorf("%d connections for three tokens", n)
	}
	if strings.Contains(log.String(), "hush") || strings.Count(log.String(), "the endpoint is away") != 1 {
		t.Errorf("logged:\n%s", log.String())
	}
}

// The source of a token learns that the broker refuses it. The report on the missing connection does not contain the
// token.
func TestTokenIsRefused(t *testing.T) {
	t.Parallel()
	f := newFake(t, listen(t), func(m *sent) { m.ack() })
	f.login = func(response string) bool { return response == "\x00relay\x00hush-1" }
	tokens := &serial{}
	p := amqp.New(amqp.Config{Tokens: tokens, URL: func() (string, error) {
		return fmt.Sprint("amqp://relay@", f.listener.Addr()), nil
	}})
	t.Cleanup(func() { _ = p.Close() })
	err := p.Ping(within(t, 10*time.Second))
	if err == nil || publisher.ShortOf(err) != "login refused" || !strings.Contains(err.Error(), "check Tokens") ||
		strings.Contains(err.Error(), "hush") {
		t.Errorf("the refused token: %v", err)
	}
	tokens.mu.Lock()
	if len(slices.Compact(tokens.refused)) != 1 || tokens.refused[0] != "hush-0" { // also at further attempts
		t.Errorf("refused are %q", tokens.refused)
	}
	tokens.mu.Unlock()
	tokens.fails.Store(true)
	await(t, func() bool {
		err := p.Ping(within(t, 10*time.Second))
		return publisher.ShortOf(err) == "no token" && strings.Contains(err.Error(), "the endpoint is away")
	})
	tokens.fails.Store(false)
	tokens.current.Store(1)
	await(t, func() bool { return p.Ping(within(t, 10*time.Second)) == nil })
}

// secret returns the last response by which the client proved its identity.
func (c *fakeConn) secret() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.response
}

// clientCredentials gets tokens for the real broker from a token endpoint, which lets them live for seconds. None of
// the messages is refused. Without the endpoint, messages are refused once the last token has expired.
func (o *ownBroker) clientCredentials(t *testing.T) {
	o.ctl(t, "eval", "application:set_env(rabbit, channel_tick_interval, 500).")
	_, host, _ := strings.Cut(o.harness.url, "@")
	topic := o.harness.Topic(t)
	const life = 8 * time.Second
	var asked atomic.Int64
	var gone atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, secret, _ := r.BasicAuth(); gone.Load() || id != "relay" || secret != "hush" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":3}`, o.token(t, life)) // a busy machine may renew a token late
	}))
	defer server.Close()
	endpoint := &oauth.Endpoint{
		URL: server.URL, Settings: "OUTBOX_AMQP_OAUTH_", Logger: slog.New(slog.DiscardHandler),
		Client: func() (oauth.Client, error) { return oauth.Client{ID: "relay", Secret: "hush"}, nil },
	}
	p := amqp.New(amqp.Config{
		Tokens: endpoint, Name: "client credentials", URL: func() (string, error) { return "amqp://" + host, nil },
		Management: func() (string, error) { return "http://" + o.management, nil },
	})
	defer p.Close()
	accepted := 0
	// until the first token has expired
	for began := time.Now(); asked.Load() < 3 || time.Since(began) < life+time.Second; {
		if err := p.Ping(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		for _, err := range p.Publish(within(t, 10*time.Second), numbered(10, 2, topic)) {
			switch class := publisher.ClassOf(err); class {
			case publisher.Accepted:
				accepted++
			case publisher.Ambiguous, publisher.NotAttempted: // the queue of a busy broker confirms late
			default:
				t.Errorf("a message is %v: %v", class, err)
			}
		}
	}
	if accepted == 0 {
		t.Error("no message was accepted")
	}
	if found := fmt.Sprint(p.Examine(within(t, 20*time.Second), publishertest.Addresses(topic))); strings.Contains(found,
		"sees nothing") ||
		!strings.Contains(found, "queue") {
		t.Errorf("doctor: %s", found)
	}
	gone.Store(true)
	await(t, func() bool {
		return publisher.ClassOf(p.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0]) == publisher.Topology
	})
	gone.Store(false)
	await(t, func() bool {
		_ = p.Ping(within(t, 10*time.Second))
		return p.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0] == nil
	})
	// A vhost that the token's scopes do not cover.
	other := amqp.New(amqp.Config{Tokens: endpoint, URL: func() (string, error) {
		return "amqp://" + strings.TrimSuffix(host, "/") + "/none",
			nil
	}})
	defer other.Close()
	if err := other.Ping(within(t, 10*time.Second)); err == nil ||
		!strings.Contains(err.Error(), `virtual host "none"`) || !strings.Contains(err.Error(), "scope") {
		t.Errorf("another vhost: %v", err)
	}
}
