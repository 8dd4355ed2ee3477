package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/renewed"
)

// A server is a token endpoint with configurable answers, in simulated time too.
type server struct {
	requests int
	form     url.Values // the last request's form
	id       string     // client id in the header
	secret   string
	status   int
	answer   string // %d stands for the number of the request
	err      error
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests++
	if s.err != nil {
		return nil, s.err
	}
	_ = r.ParseForm()
	s.form = r.PostForm
	s.id, s.secret, _ = r.BasicAuth()
	recorder := httptest.NewRecorder()
	recorder.WriteHeader(s.status)
	_, _ = recorder.WriteString(strings.ReplaceAll(s.answer, "%d", fmt.Sprint(s.requests)))
	return recorder.Result(), nil
}

func (s *server) endpoint(client Client) *Endpoint {
	return &Endpoint{
		URL: "https://id.example/token?hush", Scope: "kafka write", Settings: "OUTBOX_X_OAUTH_",
		Client: func() (Client, error) { return client, nil }, HTTP: &http.Client{Transport: s},
		Logger: slog.New(slog.DiscardHandler),
	}
}

func token(t *testing.T, e *Endpoint, want string) {
	t.Helper()
	if got, err := e.Token(context.Background()); err != nil || got != want {
		t.Errorf("the token is %q, want %q: %v", got, want, err)
	}
}

// A client authenticates by a secret (RFC 6749) or an assertion (RFC 7523).
func TestRequest(t *testing.T) {
	t.Parallel()
	const answer = `{"access_token":"t","expires_in":3600,"token_type":"Bearer"}`
	s := &server{status: http.StatusOK, answer: answer}
	token(t, s.endpoint(Client{ID: "relay:1", Secret: "hush/secret"}), "t")
	if s.id != "relay%3A1" || s.secret != "hush%2Fsecret" ||
		s.form.Encode() != "grant_type=client_credentials&scope=kafka+write" {
		t.Errorf("with a secret: %v as %s", s.form, s.id)
	}
	const rest = "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer"
	for id, form := range map[string]string{
		"":      "client_assertion=a.b.c" + rest + "&grant_type=client_credentials&scope=kafka+write",
		"relay": "client_assertion=a.b.c" + rest + "&client_id=relay&grant_type=client_credentials&scope=kafka+write",
	} {
		token(t, s.endpoint(Client{ID: id, Assertion: "a.b.c\n"}), "t")
		if s.id != "" || s.form.Encode() != form {
			t.Errorf("with an assertion: %v as %q", s.form.Encode(), s.id)
		}
	}
}

// An assertion lives for minutes and its file is renewed, so it is read again for each token.
func TestAssertionIsReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "assertion")
	s := &server{status: http.StatusOK, answer: `{"access_token":"t%d","expires_in":3600}`}
	e := s.endpoint(Client{})
	e.Client = func() (Client, error) {
		text, err := os.ReadFile(path)
		return Client{Assertion: string(text)}, err
	}
	for n := 1; n <= 3; n++ {
		assertion := fmt.Sprint("jwt-", n)
		if err := os.WriteFile(path, []byte(assertion), 0o600); err != nil {
			t.Fatal(err)
		}
		token(t, e, fmt.Sprint("t", n))
		if got := s.form.Get("client_assertion"); got != assertion {
			t.Errorf("the assertion is %q, not %q", got, assertion)
		}
		e.kept = renewed.Value[string]{}
	}
}

// A token is used for four fifths of its lifetime. If it cannot then be renewed, it is used until it expires, and the
// failure is logged once.
func TestRenewal(t *testing.T) {
	t.Parallel()
	for name, life := range map[string]time.Duration{
		`,"expires_in":3600`: time.Hour, `,"expires_in":300.0`: 5 * time.Minute, "": time.Minute,
		`,"expires_in":-1`: time.Minute, `,"expires_in":1e30`: 24 * time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{status: http.StatusOK, answer: `{"access_token":"t%d"` + name + `}`}
			e := s.endpoint(Client{ID: "relay", Secret: "hush"})
			var log bytes.Buffer
			e.Logger = slog.New(slog.NewTextHandler(&log, nil))
			token(t, e, "t1")
			<-time.After(life*4/5 - time.Second)
			token(t, e, "t1")
			<-time.After(2 * time.Second)
			token(t, e, "t2")
			<-time.After(life*4/5 + time.Second/2)
			s.err = errors.New("it is away")
			for range 3 {
				token(t, e, "t2")
			}
			<-time.After(10 * time.Second)
			if life > 100*time.Second {
				token(t, e, "t2")
			}
			if n := strings.Count(log.String(), "cannot be renewed"); n != 1 || strings.Contains(log.String(), "hush") {
				t.Errorf("logged %d times:\n%s", n, log.String())
			}
			<-time.After(life / 5)
			if _, err := e.Token(context.Background()); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

// A token that a broker refuses, because keys were changed or it was revoked, is dropped long before it expires. The
// endpoint is not asked at each login.
func TestRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: http.StatusOK, answer: `{"access_token":"t%d","expires_in":3600}`}
		e := s.endpoint(Client{ID: "relay", Secret: "hush"})
		for range 20 {
			token(t, e, "t1")
			e.Refused("t1")
		}
		<-time.After(5 * time.Second)
		token(t, e, "t1")
		e.Refused("t0")
		token(t, e, "t1")
		e.Refused("t1")
		token(t, e, "t2")
	})
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*server, *Endpoint){
		"check OUTBOX_X_OAUTH_CLIENT_ID, _SCOPE and _CLIENT_SECRET: 401 Unauthorized \"invalid_client\"": func(s *server,
			_ *Endpoint,
		) {
			s.status, s.answer = http.StatusUnauthorized, `{"error":"invalid_client","error_description":"hush"}`
		},
		"_CLIENT_ASSERTION": func(s *server, e *Endpoint) {
			s.status, e.Client = http.StatusBadRequest, func() (Client, error) { return Client{Assertion: "hush"}, nil }
		},
		"not a token endpoint: check OUTBOX_X_OAUTH_TOKEN_URL":  func(s *server, _ *Endpoint) { s.answer = `<html>hush` },
		"is not a token endpoint: check":                        func(s *server, _ *Endpoint) { s.answer = `{}` },
		"cannot be reached: check OUTBOX_X_OAUTH_TOKEN_URL and": func(s *server, _ *Endpoint) { s.err = errors.New("away") },
		"no such file": func(_ *server, e *Endpoint) {
			e.Client = func() (Client, error) { return Client{}, errors.New("no such file") }
		},
		"OUTBOX_X_OAUTH_TOKEN_URL is not a URL": func(_ *server, e *Endpoint) { e.URL = "http://a b" },
	} {
		s := &server{status: http.StatusOK, answer: `{"access_token":"t"}`}
		e := s.endpoint(Client{ID: "relay", Secret: "hush"})
		change(s, e)
		if _, err := e.Token(t.Context()); err == nil || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", says, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", Client{Secret: "hush"}, Client{Assertion: "hush"},
		Client{Secret: "hush"}); strings.Contains(text,
		"hush") {
		t.Errorf("printed as %s", text)
	}
}

func TestGiven(t *testing.T) {
	t.Parallel()
	n := 0
	tokens := Given(func() (string, error) { n++; return fmt.Sprint("t", n), nil })
	for want := 1; want <= 2; want++ {
		if got, err := tokens.Token(t.Context()); err != nil || got != fmt.Sprint("t", want) {
			t.Errorf("%q, %v", got, err)
		}
		tokens.Refused("t1")
	}
}
