package amqp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// fanouts are the exchanges that are known to send each message to all their queues, whatever its routing key: one queue that
// rejects then does so for all routing keys, and each try for another of them would leave one more copy in the other queues.
// AMQP does not tell an exchange's type. The management interface does, if it is configured; it is asked for an exchange that is
// in trouble. Other types, and exchanges whose type is not known, go by the route.
type fanouts struct {
	known atomic.Pointer[map[string]struct{}] // never changed

	mu    sync.Mutex
	asked map[string]time.Time // by exchange
	end   context.CancelFunc   // ends the question under way, if any
	over  bool                 // nothing is asked any more
}

// typeFor is how long an exchange in trouble is not asked for again.
const typeFor = time.Minute

// begin returns a context for a question about the exchange, unless there is one under way or the last one is young.
func (f *fanouts) begin(exchange string) (ctx context.Context, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.end != nil || time.Since(f.asked[exchange]) < typeFor {
		return nil, false
	}
	if f.asked == nil || len(f.asked) >= maxExchanges {
		f.asked = map[string]time.Time{}
	}
	f.asked[exchange] = time.Now()
	ctx, f.end = context.WithTimeout(context.Background(), managementTimeout)
	return ctx, true
}

// learn ends the question, with the type that was found. Without one what was known stays.
func (f *fanouts) learn(exchange, kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
	f.end = nil
	if kind == "" {
		return
	}
	next := map[string]struct{}{}
	if known := f.known.Load(); known != nil && len(*known) < maxExchanges {
		for name := range *known {
			next[name] = struct{}{}
		}
	}
	if delete(next, exchange); kind == amqp091.ExchangeFanout {
		next[exchange] = struct{}{}
	}
	f.known.Store(&next)
}

// stop ends the question under way and all later ones.
func (f *fanouts) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over = true; f.end != nil {
		f.end()
	}
}

// askType asks in the background whether the exchange is a fanout. The caller is inside a call of the publisher.
func (p *Publisher) askType(exchange string) {
	if p.config.Management == nil || exchange == "" {
		return
	}
	ctx, ok := p.fanouts.begin(exchange)
	if !ok {
		return
	}
	p.running.Go(func() {
		var found struct{ Type string }
		m, err := p.management(ctx)
		if err == nil {
			err = m.get(ctx, &found, "type", "exchanges", m.vhost, exchange)
			m.client.CloseIdleConnections()
		}
		if err != nil {
			found.Type = "" // doctor tells what keeps the interface from answering
		}
		p.fanouts.learn(exchange, found.Type)
	})
}

// way returns what messages share that go to the same queues: their route, or on a fanout their exchange.
func (b *batch) way(i int) route {
	to := b.route(i)
	if b.isFanout(to.exchange) {
		to.topic = ""
	}
	return to
}

func (b *batch) isFanout(exchange string) bool {
	_, ok := b.fanouts[exchange]
	return ok
}

// named names the fanout in place of the route that the answer names. It asks for the type of the exchange.
func (b *batch) named(i int, err error) error {
	exchange := b.route(i).exchange
	b.trouble(exchange)
	if b.isFanout(exchange) {
		return publisher.WithFate(err, exchangeFate(exchange))
	}
	return err
}
