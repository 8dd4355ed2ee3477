// Package amqp publishes to RabbitMQ over AMQP 0-9-1: every message persistent and, unless told otherwise, mandatory, on
// channels in confirm mode, in windows of unanswered messages of which no two share an ordering key.
//
// One connection carries everything. Each call of Publish has a channel for itself, since delivery
// tags follow the order of publishing, and channels are kept for later calls. What the broker can
// only say by closing a channel (an oversized body, a missing right) it does not say of one message,
// and it costs all on the channel their answers. So exchanges are looked for before they are used, and
// a payload larger than all before it on the connection goes alone. Where the channel is closed even
// so, the call sends those without an answer again one by one, until the guilty one is alone.
//
// Negative confirms come from queues, not from messages: a queue that is full and rejects, a quorum
// queue that has failed. They are Unavailable for the topic. Behind an exchange, other queues may have taken the
// message: then fewer go at a time (caution), and the relay tries seldom; see also fanouts. A confirm that the library turns false
// because its channel was closed is no answer at all.
package amqp

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// Config says where and how to publish.
type Config struct {
	// URL returns amqp[s]://user:password@host:port/vhost, with several hosts separated by commas.
	// It is asked for each new connection, and by each Ping: when it has changed, a connection takes the place of the one
	// that was made with what it returned before.
	URL func() (string, error)
	// TLS returns the settings for amqps and https and is asked again for each new connection; nil stands for the
	// system's authorities. An empty ServerName stands for the URL's host.
	TLS func() (*tls.Config, error)
	// Mechanism is the SASL mechanism: PLAIN, AMQPLAIN or EXTERNAL. Empty leaves it to the URL's
	// parameter auth_mechanism, without which it is PLAIN.
	Mechanism string
	// Tokens are where the token comes from that stands in the place of the password (OAuth 2.0); nil when there is none. A new one is handed
	// over on the connection that is there.
	Tokens Tokens
	// Exchange is what messages are published to that name none; "" is the default exchange, where the
	// topic names a queue.
	Exchange string
	// TypedHeaders: header values that are not strings in the row become AMQP fields of their type, not
	// text.
	TypedHeaders bool
	// Unrouted: messages need no route. Those that no queue takes count as accepted, and are lost. It is for exchanges that give back
	// what they deliver later (x-delayed-message).
	Unrouted bool
	// Management returns the URL of RabbitMQ's management interface, http[s]://user:password@host:port, which
	// Examine asks, and for its type an exchange that is in trouble; without a user the login is that of URL. nil when there is none.
	Management func() (string, error)
	// Name is shown by the broker as the connection's name.
	Name string
	// Dial makes the network connection; nil uses a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger gets one line for each change of the connection's state; nil discards them.
	Logger *slog.Logger
}

// A Publisher publishes to one broker or cluster. It implements [publisher.Publisher].
type Publisher struct {
	config Config
	log    *slog.Logger

	dialing chan struct{} // holds one token while somebody looks at or makes the connection
	// Guarded by the token:
	host      int     // which of the URL's hosts is tried first
	blocked   *string // the reason, if the last connection ended while it was blocked
	backoff   time.Duration
	retryAt   time.Time
	retired   []*connection // calls may still use them
	renewAt   time.Time     // no sooner, after a connection could not be renewed
	unrenewed string        // why it could not, as last told

	live atomic.Pointer[connection] // the newest connection, nil before the first; changed with the token only

	mu     sync.Mutex
	closed bool
	abort  context.CancelFunc // ends the dial under way, if any
	failed error              // why the last connection could not be made or was of no use; changed with the token only
	trying *attempt           // the last to begin, for its address

	caution caution
	fanouts fanouts

	running sync.WaitGroup // calls, and what connections do in the background
}

// New returns a publisher that connects when it is first used.
func New(config Config) *Publisher {
	p := &Publisher{config: config, log: config.Logger, dialing: make(chan struct{}, 1)}
	if p.config.Dial == nil {
		p.config.Dial = new(net.Dialer).DialContext
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if config.Unrouted {
		p.log.Warn("rows count as relayed although no queue may take them, and then are lost: OUTBOX_AMQP_MANDATORY is false")
	}
	return p
}

// Publish implements [publisher.Publisher].
func (p *Publisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	b := newBatch(p.config.Exchange, messages, &p.caution)
	b.trouble = p.askType
	if known := p.fanouts.known.Load(); known != nil {
		b.fanouts = *known
	}
	if !p.enter() {
		for i := range b.answers {
			b.answers[i] = publisher.ErrClosed
		}
		return b.answers
	}
	defer p.running.Done()
	if len(messages) > 0 {
		b.end(p.publish(ctx, b))
	}
	return b.answers
}

// publish returns nil when every message has its answer, else the answer for those that were not
// sent.
func (p *Publisher) publish(ctx context.Context, b *batch) error {
	if ctx.Err() != nil {
		return publisher.ErrNotAttempted
	}
	conn, err := p.connect(ctx, false)
	if err != nil {
		return err
	}
	defer conn.release()
	// Each turn is one channel. A channel that the broker closes answers at least one message.
	for !b.complete() {
		if err := conn.usable(); err != nil {
			return err
		}
		if err := b.lookForExchanges(ctx, conn); err != nil {
			return err
		}
		ch, err := conn.take(ctx)
		if err != nil {
			return err
		}
		err = b.run(ctx, ch)
		conn.put(ch, len(b.flights) == 0)
		if err != nil {
			return err
		}
	}
	return nil
}

// Ping implements [publisher.Publisher].
func (p *Publisher) Ping(ctx context.Context) error {
	if !p.enter() {
		return publisher.ErrClosed
	}
	defer p.running.Done()
	conn, err := p.connect(ctx, true)
	if errors.Is(err, publisher.ErrNotAttempted) {
		err = p.stillDialing(err)
	}
	if err == nil {
		err = conn.ping(ctx, p.config.Exchange)
		conn.release()
	}
	if errors.Is(err, publisher.ErrNotAttempted) {
		return unavailable("no answer", "RabbitMQ did not answer the ping: %w", context.Cause(ctx))
	}
	return err
}

// Close implements [publisher.Publisher].
func (p *Publisher) Close() error {
	p.mu.Lock()
	closed, abort := p.closed, p.abort
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	if abort != nil {
		abort()
	}
	p.fanouts.stop()
	p.dialing <- struct{}{}
	connections := p.retired
	if live := p.live.Load(); live != nil {
		connections = append(connections, live)
	}
	<-p.dialing
	for _, conn := range connections {
		p.running.Go(conn.close)
	}
	p.running.Wait()
	return nil
}

// enter counts a call, unless the publisher is closed.
func (p *Publisher) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.running.Add(1)
	return true
}
