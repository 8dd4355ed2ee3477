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

	"github.com/segmentio/kafka-go/sasl"
)

// ClientCredentials gets tokens from a token endpoint (RFC 6749, section 4.4). A token is used again for logins until
// four fifths of its life have passed, or a broker has refused it. Set the fields before the first use.
type ClientCredentials struct {
	URL   string
	Scope string // may be empty
	// Credentials are asked for with each request, so that rotated ones are taken.
	Credentials func() (id, secret string, err error)
	Client      *http.Client // nil is http.DefaultClient

	mu    sync.Mutex
	token string
	asked time.Time // when the token was given
	until time.Time
}

// maxTokenAnswer bounds what is read of a token endpoint's answer.
const maxTokenAnswer = 1 << 20

const (
	// unknownLife is the life of a token whose endpoint does not tell.
	unknownLife = time.Minute
	// refusedPause is how long a token that is refused is used all the same: clusters may refuse every token, and the
	// endpoint is not to be asked for each login.
	refusedPause = 5 * time.Second
)

// Mechanism returns the mechanism OAUTHBEARER with these tokens; see [OAuth].
func (c *ClientCredentials) Mechanism(extensions ...string) sasl.Mechanism {
	return &bearer{token: c.Token, refused: c.refused, extensions: extensions}
}

// refused notes that a broker takes the token no more: keys were changed, the token was revoked, or a right that it lacks
// was granted meanwhile. The next login has another one.
func (c *ClientCredentials) refused(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token == c.token && time.Since(c.asked) >= refusedPause {
		c.until = time.Time{}
	}
}

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
	c.token, c.asked = token, time.Now()
	c.until = c.asked.Add(life * 4 / 5)
	return token, nil
}

// request asks for a token, and returns how long it lives.
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
		return "", 0, fmt.Errorf("the token endpoint %s cannot be reached: check OUTBOX_KAFKA_OAUTH_TOKEN_URL and the network: %w",
			request.URL.Host, err)
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
	if answer.Life <= 0 {
		return answer.Token, unknownLife, nil
	}
	const longest = 24 * time.Hour
	return answer.Token, time.Duration(min(answer.Life, longest.Seconds()) * float64(time.Second)), nil
}
