package amqp

import (
	"context"
	"net/url"
	"time"
)

// nameless is the user name for a login where a token is enough but the name must not be empty. RabbitMQ takes the user
// from the token.
const nameless = "oauth"

// tokenTimeout bounds the time for getting a token.
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
