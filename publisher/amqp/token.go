package amqp

import (
	"context"
	"net/url"
	"time"
)

// nameless is the user name for a login where a token is enough but the name must not be empty. RabbitMQ takes the user
// from the token.
const nameless = "oauth"

// tokenTimeout bounds the time for getting a token, and for handing it over on an existing connection.
const tokenTimeout = 5 * time.Second

// newToken returns the token for a new connection, or "" if there is none. It blocks until the source has one, for
// tokenTimeout at most.
func (p *Publisher) newToken(ctx context.Context) (string, error) {
	if p.config.Tokens == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, err := p.config.Tokens.Token(ctx)
	if err != nil {
		return "", unavailable("no token", "there is no token to log in to RabbitMQ with: %w", err)
	}
	return token, nil
}

// userIn returns the user in a URL, or "" if there is none. The library would supply a default.
func userIn(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return parsed.User.Username()
}

// renew hands over a new token if there is one, and disturbs neither calls under way nor messages: UpdateSecret
// replaces the token on the connection. refused means that the broker has refused an operation that relies on the old
// token. It blocks for tokenTimeout at most, in the keeper's goroutine, as a dial with a new token would.
func (c *connection) renew(refused bool) {
	if !c.renewal.Due() {
		return
	}
	ctx, cancel := context.WithTimeout(c.p.life.Ctx, tokenTimeout)
	defer cancel()
	if refused && time.Since(c.made) >= tokenRest {
		c.made = time.Now()
		c.p.config.Tokens.Refused(c.token)
	}
	token, err := c.p.config.Tokens.Token(ctx)
	if err == nil && token != c.token {
		err = c.ask(ctx, func() error { return c.amqp.UpdateSecret(token, "renewed") })
	}
	if err == nil {
		c.token = token
	}
	if c.renewal.Ended(err) && !c.amqp.IsClosed() {
		c.p.log.Warn("rabbitmq gets no new token, so the connection keeps the one from before", "address",
			c.address, "error", err)
	}
}
