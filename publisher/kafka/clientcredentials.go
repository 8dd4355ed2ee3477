package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ClientCredentials gets tokens for [OAuth] from a token endpoint (RFC 6749, section 4.4). A token is used
// again for logins until four fifths of its life have passed. Set the fields before the first use.
type ClientCredentials struct {
	URL   string
	Scope string // may be empty
	// Credentials are asked for with each request, so that rotated ones are taken.
	Credentials func() (id, secret string, err error)
	Client      *http.Client // nil is http.DefaultClient

	mu    sync.Mutex
	token string
	until time.Time
}

// maxTokenAnswer bounds what is read of a token endpoint's answer.
const maxTokenAnswer = 1 << 20

// Token returns a token. Errors show neither credentials nor tokens.
func (c *ClientCredentials) Token(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return c.token, nil
	}
	token, life, err := c.request(ctx)
	if err != nil {
		return "", err
	}
	c.token, c.until = token, time.Now().Add(life*4/5)
	return token, nil
}

// request asks for a token. A life of zero is unknown.
func (c *ClientCredentials) request(ctx context.Context) (token string, life time.Duration, err error) {
	id, secret, err := c.Credentials()
	if err != nil {
		return "", 0, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if c.Scope != "" {
		form.Set("scope", c.Scope)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, errors.New("OUTBOX_KAFKA_OAUTH_TOKEN_URL is no URL")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	client := c.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // without the URL, which may hold parameters
		}
		return "", 0, fmt.Errorf("the token endpoint %s cannot be reached: check OUTBOX_KAFKA_OAUTH_TOKEN_URL and the network: %w", request.URL.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Token string  `json:"access_token"`
		Life  float64 `json:"expires_in"` // seconds
		Error string  `json:"error"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxTokenAnswer)).Decode(&answer)
	switch {
	case response.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("the token endpoint %s refuses: check OUTBOX_KAFKA_OAUTH_CLIENT_ID, _CLIENT_SECRET and _SCOPE: %s %.60q",
			request.URL.Host, response.Status, answer.Error)
	case err != nil || answer.Token == "":
		return "", 0, fmt.Errorf("what answers at %s is no token endpoint: check OUTBOX_KAFKA_OAUTH_TOKEN_URL", request.URL.Host)
	}
	return answer.Token, time.Duration(answer.Life * float64(time.Second)), nil
}
