package amqp

import (
	"sync"
	"sync/atomic"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/kept"
)

// window is the maximum number of unanswered messages on a channel. Returned messages are buffered up to this number.
// The value lets a batch of the relay go out at once. With half as much, RabbitMQ took a seventh more time for each
// message of a quorum queue, because it gathered fewer messages for each write.
const window = 1000

// A channel is an AMQP channel in confirm mode, used by one call of Publish at a time. Confirms and returns arrive in
// the library's goroutine; woken tells the call that some may have come.
type channel struct {
	conn    *connection
	amqp    *amqp091.Channel
	returns chan amqp091.Return // never full: at most one for each unanswered message
	closes  chan *amqp091.Error
	woken   chan struct{} // an answer may have come
	writer  writer

	kept int  // number of messages that the broker may still answer although no call waits; guarded by conn.mu
	left bool // no call will use it any more; guarded by conn.mu

	// stale is set if a queue has rejected or not confirmed a message. Another channel then takes its place, because
	// RabbitMQ 3 remembers a queue's leader for each channel and may continue to send to a leader that is gone.
	stale atomic.Bool

	returning sync.Mutex
	returned  map[kept.ID]*amqp091.Return // returns that were collected and not yet matched

	ended bool           // closed has seen the channel's end
	cause *amqp091.Error // reason of the end; nil if the channel was closed in good order
}

// newChannel opens a channel and turns its confirms on: two questions to the broker, which the library cannot
// interrupt. The listeners for returns and for the end have room for all that can come, because the library waits up to
// five seconds for each notice that nobody takes, and reads nothing meanwhile.
func newChannel(c *connection) (*channel, error) {
	ch, err := c.amqp.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	return &channel{
		conn:    c,
		amqp:    ch,
		returns: ch.NotifyReturn(make(chan amqp091.Return, window)),
		closes:  ch.NotifyClose(make(chan *amqp091.Error, 1)),
		woken:   make(chan struct{}, 1),
		writer:  writer{frameMax: c.amqp.Config.FrameSize, user: c.user, table: amqp091.Table{}},
	}, nil
}

// publish sends a message. A message that could never be sent gets no confirm and is Permanent. It does not block,
// because the socket queues. Delivery tags follow the order of these calls, so only one goroutine may publish on a
// channel.
func (ch *channel) publish(exchange string, m *publisher.Message) (*amqp091.DeferredConfirmation, error) {
	p, err := ch.writer.publishing(m)
	if err != nil {
		return nil, err
	}
	// RabbitMQ does not support immediate publishing, and would end the connection.
	const immediate = false
	confirm, err := ch.amqp.PublishWithDeferredConfirm(exchange, m.Topic, !ch.conn.p.config.Unrouted, immediate, p)
	if failed := ch.conn.socket.Failure(); failed != nil {
		return nil, failed // the library is not told of a failed write
	}
	return confirm, err
}

// closed reports whether the channel has ended. The library sends its notice before it sets the unanswered confirms to
// false. A false confirm on a channel that is not closed therefore comes from the broker. Only the goroutine of the
// call asks.
func (ch *channel) closed() bool {
	if !ch.ended {
		select {
		case ch.cause = <-ch.closes:
			ch.ended = true
		default:
		}
	}
	return ch.ended
}

// distrust makes another channel take the channel's place, unless the connection may have no further ones. With few
// channels, closing one may leave the relay without any, since RabbitMQ counts it as open for a moment longer.
func (ch *channel) distrust() { ch.stale.Store(ch.conn.limit == "") }

// keep counts messages whose confirms are kept. Without any, a channel that was left is closed, and so is a connection
// that was retired. The channel stays open for them, because closing it would end the wait for each of them.
func (ch *channel) keep(n int) {
	c := ch.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	ch.kept += n
	c.Users.Add(n)
	if ch.kept == 0 && ch.left {
		c.p.life.Go(func() { _ = ch.amqp.Close() })
	}
}

// unanswered returns the number of messages on the channel that no call waits for. They take room in its window, which
// bounds the returns that it must have room for.
func (ch *channel) unanswered() int {
	ch.conn.mu.Lock()
	defer ch.conn.mu.Unlock()
	return ch.kept
}

// collect takes the messages that the broker has returned so far, and reports whether there are any. Several calls may
// wait for messages of one channel. They stay in the map until the call that owns the message asks: a return that was
// seen and dropped would let the confirm that follows count as an acceptance.
func (ch *channel) collect() bool {
	ch.returning.Lock()
	defer ch.returning.Unlock()
	for {
		select {
		case r, open := <-ch.returns:
			if !open {
				return len(ch.returned) > 0
			}
			if ch.returned == nil {
				ch.returned = map[kept.ID]*amqp091.Return{}
			}
			ch.returned[route{r.Exchange, r.RoutingKey}.id(r.MessageId)] = &r
		default:
			return len(ch.returned) > 0
		}
	}
}

// givenBack takes the broker's return of a message out, and returns nil if the message was not returned. Each return
// answers one message, so a later message with the same id is not taken for returned.
func (ch *channel) givenBack(id kept.ID) *amqp091.Return {
	ch.returning.Lock()
	defer ch.returning.Unlock()
	r := ch.returned[id]
	delete(ch.returned, id)
	return r
}
