package kafka

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// openOAuth returns a publisher that logs in with a token and the extension pool=blue.
func (f *fakeCluster) openOAuth(token func(context.Context) (string, error)) *Publisher {
	return f.open(func(c *Config) {
		c.SASL = func() (sasl.Mechanism, error) { return OAuth(token, "pool=blue"), nil }
	})
}

func TestOAuth(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.password = "the-token"
	with := func(token string, err error) *Publisher {
		return f.openOAuth(func(context.Context) (string, error) { return token, err })
	}
	expect(t, "the right token", publish(t, with("the-token", nil), rows("t", 0, 1, "a")), ok)
	for name, test := range map[string]struct {
		p           *Publisher
		short, says string
	}{
		"another token": {with("secret-token", nil), "login refused", "invalid_token"},
		"no token":      {with("", errors.New("the file is gone")), "credentials unusable", "the file is gone"},
		"two lines":     {with("secret\ntoken", nil), "credentials unusable", "blanks"},
	} {
		answer := answersOf(t, test.p, rows("t", 0, 1, "b"))[0]
		if publisher.ClassOf(answer) != down || publisher.ShortOf(answer) != test.short || !strings.Contains(answer.Error(), test.says) {
			t.Errorf("%s: %v (%s)", name, answer, publisher.ShortOf(answer))
		}
		if strings.Contains(answer.Error(), "secret") {
			t.Errorf("%s: the token is shown: %v", name, answer)
		}
	}
}

// A broker ends sessions after some time. The connections are replaced before, with fresh credentials,
// while nothing is on them: no message goes without its answer.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.password, f.lifetime = "token-1", 100*time.Millisecond
	token := "token-1"
	p := f.openOAuth(func(context.Context) (string, error) { return token, nil })
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

func TestClientCredentials(t *testing.T) {
	t.Parallel()
	const form = "grant_type=client_credentials&scope=kafka+write"
	requests, answer, status := 0, `{"access_token":"t1","expires_in":0.05,"token_type":"Bearer"}`, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		id, secret, _ := r.BasicAuth()
		if err := r.ParseForm(); err != nil || id != "relay%3A1" || secret != "hush%2Fsecret" || r.PostForm.Encode() != form ||
			r.Method != http.MethodPost {
			t.Errorf("the request is %s with %v as %s", r.Method, r.PostForm, id)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	c := &ClientCredentials{URL: server.URL + "/token?hush", Scope: "kafka write",
		Credentials: func() (string, string, error) { return "relay:1", "hush/secret", nil }}
	token := func(want string) {
		t.Helper()
		if got, err := c.Token(t.Context()); err != nil || got != want {
			t.Errorf("the token is %q, want %q: %v", got, want, err)
		}
	}
	token("t1")
	token("t1")
	if requests > 2 {
		t.Errorf("%d requests for one token", requests)
	}
	answer = `{"access_token":"t2"}`
	eventually(t, func() bool { got, err := c.Token(t.Context()); return err == nil && got == "t2" })
	before := requests
	token("t2")
	if life := c.until.Sub(c.asked); requests != before || life != unknownLife*4/5 {
		t.Errorf("a token of unknown life is used for %v, after %d more requests", life, requests-before)
	}
	c.until = time.Time{}
	refuse := func(name string, code int, body, says string) {
		t.Helper()
		status, answer, c.until = code, body, time.Time{}
		_, err := c.Token(t.Context())
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	refuse("wrong secret", http.StatusUnauthorized, `{"error":"invalid_client"}`, "invalid_client")
	refuse("not JSON", http.StatusOK, `<html>`, "no token endpoint")
	refuse("no token", http.StatusOK, `{}`, "no token endpoint")
	server.Close()
	refuse("away", http.StatusOK, `{}`, "cannot be reached")
	c.Credentials = func() (string, string, error) { return "", "", errors.New("no such file") }
	refuse("no credentials", http.StatusOK, `{}`, "no such file")
}

// A token that the cluster refuses, because keys were changed or it was revoked, is given up long before its life is over:
// nothing has to be started anew. The endpoint is not asked for each login.
func TestRefusedTokenIsForgotten(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","expires_in":3600}`, requests.Add(1))
	}))
	defer endpoint.Close()
	c := &ClientCredentials{URL: endpoint.URL, Credentials: func() (string, string, error) { return "id", "secret", nil }}
	f := newFakeCluster(t, 1)
	f.password = "token-2"
	p := f.open(func(config *Config) {
		config.SASL = func() (sasl.Mechanism, error) { return c.Mechanism("pool=blue"), nil }
	})
	for range 20 {
		if err := p.Ping(t.Context()); err == nil {
			t.Fatal("the cluster takes another token than its own")
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("the endpoint was asked %d times in a moment", n)
	}
	c.mu.Lock()
	c.asked = c.asked.Add(-refusedPause)
	c.mu.Unlock()
	if err := p.Ping(t.Context()); err == nil {
		t.Fatal("the cluster takes another token than its own")
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("with the next token: %v", err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("the endpoint was asked %d times for two tokens", n)
	}
	c.refused("token-1")
	if token, err := c.Token(t.Context()); err != nil || token != "token-2" {
		t.Errorf("after an older one was refused: %q, %v", token, err)
	}
}
