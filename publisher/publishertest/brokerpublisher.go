package publishertest

import (
	"context"
	"sync"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A brokerPublisher publishes to a Broker.
type brokerPublisher struct {
	broker *Broker
	link   link

	mu     sync.Mutex
	closed bool
	calls  map[int]context.CancelFunc // cancel functions of the calls under way, by number
	last   int                        // number of the last call
	open   sync.WaitGroup             // counts the calls under way
}

// A link is the path from a publisher to its broker: a direct call, or a connection in the suite's own test.
type link interface {
	// exchange sends messages and returns their answers.
	exchange(ctx context.Context, messages []publisher.Message) []error
	ping(ctx context.Context) error
	close() error
}

// Publisher returns a new publisher for the broker. A broker may have several.
func (b *Broker) Publisher() publisher.Publisher { return newBrokerPublisher(b, direct{b}) }

func newBrokerPublisher(b *Broker, l link) *brokerPublisher {
	return &brokerPublisher{broker: b, link: l, calls: map[int]context.CancelFunc{}}
}

// Publish sends all messages in one exchange. The broker keeps the order of each key.
func (p *brokerPublisher) Publish(ctx context.Context, messages []publisher.Message) []error {
	answers := make([]error, len(messages))
	ctx, done, ok := p.begin(ctx)
	if !ok {
		return fill(answers, publisher.ErrClosed)
	}
	defer done()
	defer p.broker.enter(messages)()
	if ctx.Err() != nil || publisher.StopOf(ctx).Closed() {
		return fill(answers, publisher.ErrNotAttempted)
	}
	if len(messages) == 0 {
		return answers
	}
	return p.link.exchange(ctx, messages)
}

// Ping reports whether the broker is up.
func (p *brokerPublisher) Ping(ctx context.Context) error {
	ctx, done, ok := p.begin(ctx)
	if !ok {
		return publisher.ErrClosed
	}
	defer done()
	return p.link.ping(ctx)
}

// Close ends the calls under way.
func (p *brokerPublisher) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, cancel := range p.calls {
		cancel()
	}
	p.mu.Unlock()
	p.open.Wait()
	return p.link.close()
}

// begin returns a context that also ends with Close. It reports false if the publisher is closed.
func (p *brokerPublisher) begin(ctx context.Context) (_ context.Context, done func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	p.last++
	number := p.last
	p.calls[number] = cancel
	p.open.Add(1)
	return ctx, func() {
		p.mu.Lock()
		delete(p.calls, number)
		p.mu.Unlock()
		cancel()
		p.open.Done()
	}, true
}

// A direct link calls the broker without a connection.
type direct struct{ broker *Broker }

func (d direct) exchange(ctx context.Context, messages []publisher.Message) []error {
	return d.broker.take(ctx, messages)
}

func (d direct) ping(ctx context.Context) error {
	d.broker.mu.Lock()
	defer d.broker.mu.Unlock()
	if !d.broker.pause(ctx) {
		return ctx.Err()
	}
	if d.broker.down {
		return publisher.UnavailableError(publisher.ScopeDestination, "broker down", "the broker is down")
	}
	return nil
}

func (d direct) close() error { return nil }
