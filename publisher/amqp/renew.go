package amqp

import (
	"time"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// A connection keeps the login with which it was made. If its OAuth token has expired, RabbitMQ refuses each operation
// and leaves the connection open. A connection is therefore replaced if the URL or the token has changed. RabbitMQ
// looks up the rights of any other login at each refusal, and logging in again would change nothing. In addition, a
// node that confirms nothing for a long time is left for another one. It may have lost contact with the rest of the
// cluster, which goes on without it.

const (
	// tokenRest is how long a token is used before a refusal is a reason to ask for another one. A missing right
	// remains missing with each token.
	tokenRest = time.Minute
	// stay is the minimum time between leaving one node that confirms nothing and the next. If a queue has lost the
	// majority of its nodes, no node is better than another.
	stay = time.Minute
)

// newKeeper returns the keeper of the publisher's connection.
func (p *Publisher) newKeeper() *connect.Keeper[*connection] {
	return &connect.Keeper[*connection]{
		Life: p.life, Broker: "RabbitMQ", Dial: p.dial, Outdated: p.outdated,
		Stays: func(live *connection, err error) {
			p.log.Warn("rabbitmq cannot be logged in to again, so the connection from before stays", "address",
				live.address, "error", err)
		},
		Replaced: func(silent, _ *connection) {
			p.log.Warn("rabbitmq sends nothing any more, so another connection is made", "address", silent.address)
		},
	}
}

// outdated reports whether another connection must take the place of this one. It is called every other second and
// after a refusal, in the keeper's goroutine. It blocks until there is a token, for tokenTimeout at most. Why there is
// none is reported by the next attempt to connect.
func (p *Publisher) outdated(live *connection) bool {
	refused := live.refused.Swap(false)
	// The next dial begins with the next host of the URL.
	if p.leaves(live) {
		p.host++
		return true
	}
	if url, err := p.config.URL(); err == nil && url != live.url {
		return true
	}
	if p.config.Tokens == nil {
		return false
	}
	if refused && time.Since(live.made) >= tokenRest {
		live.made = time.Now()
		p.config.Tokens.Refused(live.uri.Password)
	}
	token, err := p.newToken(p.life.Ctx)
	return err != nil || token != live.uri.Password
}

// leaves reports whether to leave the connection's node because the node confirms nothing.
func (p *Publisher) leaves(live *connection) bool {
	now := time.Now()
	if !live.futile.Swap(false) || live.blocked.Load() != nil || now.Before(p.leaveAt) {
		return false
	}
	p.leaveAt = now.Add(stay)
	p.log.Warn("rabbitmq confirms nothing, so another node is asked", "address", live.address)
	return true
}
