package amqp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// fanouts holds the exchanges that are known to send each message to all their queues, whatever its routing key. On
// such an exchange, one queue that rejects does so for all routing keys, and each try with another key would leave one
// more copy in the other queues. AMQP does not reveal an exchange's type. If the management interface is configured, it
// is asked for the type of an exchange in trouble. Exchanges of other types, or of unknown type, are treated by route.
type fanouts struct {
	known atomic.Pointer[map[string]struct{}] // the map is never changed

	mu    sync.Mutex
	asked map[string]time.Time // time of the last question, by exchange
	end   context.CancelFunc   // ends the question under way, if any
	over  bool                 // nothing is asked any more
}

// typeFor is how long an exchange in trouble is not asked for again.
const typeFor = time.Minute

// begin returns a context for a question about the exchange. It returns false if a question is under way, or if the
// last one about the exchange was less than typeFor ago.
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
	ctx, f.end = context.WithTimeout(context.Background(), rabbitmq.Timeout)
	return ctx, true
}

// learn ends the question with the type that was found. If no type was found, the previous knowledge stays.
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
			err = m.Get(ctx, &found, "type", "exchanges", m.Vhost, exchange)
			m.Close()
		}
		if err != nil {
			found.Type = ""
		}
		p.fanouts.learn(exchange, found.Type)
	})
}

// way returns what messages to the same queues have in common: their route, or on a fanout their exchange.
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

// named returns the answer with the exchange as its fate instead of the route, if the exchange is a fanout. It asks for
// the type of the exchange.
func (b *batch) named(i int, err error) error {
	exchange := b.route(i).exchange
	b.trouble(exchange)
	if b.isFanout(exchange) {
		return publisher.WithFate(err, exchangeFate(exchange))
	}
	return err
}
