package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/internal/oauth"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// openOAuth returns a publisher that logs in with a token and the extension pool=blue.
func (f *fakeCluster) openOAuth(token func() (string, error)) *Publisher {
	return f.open(func(c *Config) {
		c.SASL = func() (sasl.Mechanism, error) {
			return &OAuth{Tokens: oauth.Given(token), Extensions: []string{"pool=blue"}}, nil
		}
	})
}

func TestOAuth(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.password = "the-token"
	with := func(token string, err error) *Publisher {
		return f.openOAuth(func() (string, error) { return token, err })
	}
	expect(t, "the right token", publish(t, with("the-token", nil), rows("t", 0, 1, "a")), ok)
	for name, test := range map[string]struct {
		p           *Publisher
		short, says string
	}{
		"another token": {with("secret-token", nil), "login refused", "invalid_token"},
		"no token":      {with("", errors.New("the file is gone")), "credentials unusable", "the file is gone"},
		"two lines":     {with("secret\ntoken", nil), "login refused", "invalid_token"},
	} {
		answer := answersOf(t, test.p, rows("t", 0, 1, "b"))[0]
		if publisher.ClassOf(answer) != down || publisher.ShortOf(answer) != test.short ||
			!strings.Contains(answer.Error(), test.says) {
			t.Errorf("%s: %v (%s)", name, answer, publisher.ShortOf(answer))
		}
		if strings.Contains(answer.Error(), "secret") {
			t.Errorf("%s: the token is shown: %v", name, answer)
		}
	}
}

// A broker ends sessions after some time. The connections are replaced before that, with fresh credentials, while
// nothing is on them. No message is without its answer.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.password, f.lifetime = "token-1", 100*time.Millisecond
	token := "token-1"
	p := f.openOAuth(func() (string, error) { return token, nil })
	logins := func() (n int) { f.set(func() { n = f.logins }); return n }
	sent := 0
	eventually(t, func() bool {
		expect(t, "in the session", publish(t, p, rows("t", 0, 1, "a")), ok)
		sent++
		return logins() >= 4
	})
	token = "token-2"
	f.set(func() { f.password = "token-2" })
	eventually(t, func() bool {
		expect(t, "after the rotation", publish(t, p, rows("t", 0, 1, "b")), ok)
		sent++
		return logins() >= 6
	})
	if n := len(f.log("t", 0)); n != sent {
		t.Errorf("%d records of %d messages", n, sent)
	}
}

// numbered is a source of tokens, each of which is used until it is refused.
type numbered struct {
	n       int
	refused []string
}

func (n *numbered) Token(context.Context) (string, error) { return fmt.Sprint("token-", n.n), nil }

func (n *numbered) Refused(token string) {
	n.refused = append(n.refused, token)
	n.n++
}

// The source of a token learns that a broker refuses the token. It learns of no other failure.
func TestRefusedTokenIsReported(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.password = "token-2"
	tokens := &numbered{}
	p := f.open(func(config *Config) {
		config.SASL = func() (sasl.Mechanism, error) { return &OAuth{Tokens: tokens, Extensions: []string{"pool=blue"}}, nil }
	})
	f.setDown(0, true)
	if err := p.Ping(t.Context()); err == nil || tokens.n != 0 {
		t.Errorf("a broker that is away: %v, %d tokens refused", err, tokens.n)
	}
	f.setDown(0, false)
	eventually(t, func() bool { return p.Ping(t.Context()) == nil })
	if !slices.Equal(tokens.refused, []string{"token-0", "token-1"}) {
		t.Errorf("refused were %q", tokens.refused)
	}
}
