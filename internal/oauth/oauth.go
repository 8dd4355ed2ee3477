// Package oauth gets the access tokens (OAuth 2.0) that brokers accept for a login: from a file that another process
// renews, or from a token endpoint.
package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/renewed"
)

// Given returns the present token, for example from a file. Only the broker knows whether it is valid.
type Given func() (string, error)

// Token returns the present token.
func (g Given) Token(context.Context) (string, error) { return g() }

// Refused does nothing: the next token is read in the same way.
func (Given) Refused(string) {}

// An Endpoint gets tokens from a token endpoint with client credentials (RFC 6749, section 4.4). A token is reused
// until four fifths of its lifetime have passed, or a broker has refused it. Set the fields before the first use.
type Endpoint struct {
	URL   string
	Scope string // may be empty
	// Client is called for each request, so that a rotated secret and a renewed assertion are used.
	Client func() (Client, error)
	// Settings is the prefix of the settings' names in errors.
	Settings string
	HTTP     *http.Client // nil is http.DefaultClient
	Logger   *slog.Logger

	kept renewed.Value[string]
}

// A Client identifies itself to the token endpoint, by a secret or by an assertion.
type Client struct {
	ID        string // may be empty with an assertion, which names the client
	Secret    string
	Assertion string // a signed JWT (RFC 7523), as a cloud issues it to its workloads
}

// Format keeps secrets out of logs and errors.
func (Client) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "[redacted]") }

// assertionType is the type of signed JWTs (RFC 7523, section 2.2).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// longestLife is how long a token is used at most, in seconds.
const longestLife = 24 * 60 * 60

// Refused records that a broker no longer accepts the token: the next login uses another token.
func (e *Endpoint) Refused(token string) { e.kept.Refused(token) }

// Token returns a token. It may block for a request. Errors show neither credentials nor tokens.
func (e *Endpoint) Token(ctx context.Context) (string, error) {
	return e.kept.From("OAuth token", e.Logger, func() (string, time.Time, error) { return e.request(ctx) })
}

// request requests a token, and returns when it expires.
func (e *Endpoint) request(ctx context.Context) (token string, ends time.Time, err error) {
	client, err := e.Client()
	if err != nil {
		return "", ends, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if e.Scope != "" {
		form.Set("scope", e.Scope)
	}
	proof := "_CLIENT_SECRET"
	if client.Assertion != "" {
		proof = "_CLIENT_ASSERTION (its file is renewed by whoever writes it; issuer, subject and audience must be " +
			"those that the client trusts)"
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", strings.TrimSpace(client.Assertion))
		if client.ID != "" {
			form.Set("client_id", client.ID)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", ends, fmt.Errorf("%sTOKEN_URL is not a URL: correct it", e.Settings)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	if client.Assertion == "" {
		request.SetBasicAuth(url.QueryEscape(client.ID), url.QueryEscape(client.Secret))
	}
	var answer struct {
		Token string  `json:"access_token"`
		Life  float64 `json:"expires_in"` // in seconds
		Error string  `json:"error"`
	}
	use := func() (string, bool) { return answer.Error, answer.Token != "" }
	host := request.URL.Host
	err = renewed.Fetch(cmp.Or(e.HTTP, http.DefaultClient), request, json.Unmarshal, &answer, use, renewed.Remedies{
		Away:    "the token endpoint " + host + " cannot be reached: check " + e.Settings + "TOKEN_URL and the network",
		Refused: "the token endpoint " + host + " refuses: check " + e.Settings + "CLIENT_ID, _SCOPE and " + proof,
		Foreign: "what answers at " + host + " is not a token endpoint: check " + e.Settings + "TOKEN_URL",
	})
	if err != nil {
		return "", ends, err
	}
	life := time.Minute // if the endpoint does not report it
	if answer.Life > 0 {
		life = time.Duration(min(answer.Life, longestLife) * float64(time.Second))
	}
	return answer.Token, time.Now().Add(life), nil
}
