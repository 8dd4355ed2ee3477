package amqp

import (
	"sync"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// window is how many messages may be unanswered on a channel. Returned messages are buffered up to this
// number. A batch of the relay goes out at once: with half as much, RabbitMQ spent a seventh more on each
// message of a quorum queue, because it gathered fewer for each write.
const window = 1000

// A channel is an AMQP channel in confirm mode, used by one call of Publish at a time.
type channel struct {
	conn    *connection
	amqp    *amqp091.Channel
	returns chan amqp091.Return // never full: at most one for each unanswered message
	closes  chan *amqp091.Error
	woken   chan struct{} // something may have been answered
	writer  writer

	kept int // messages that calls have given up and that the broker may still answer; guarded by conn.mu

	// stale is that a queue has rejected or not confirmed a message. What RabbitMQ 3 knows of a queue's leader it keeps for each channel, and
	// may go on sending to one that is gone: the next call has another channel.
	stale bool

	returning sync.Mutex
	returned  map[keptID]*amqp091.Return // that were collected, and not yet matched

	ended bool           // closed has seen the channel's end
	cause *amqp091.Error // why, nil when it was closed in good order
}

func newChannel(c *connection, conn *amqp091.Connection) (*channel, error) {
	ch, err := conn.Channel()
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
		writer:  writer{frameMax: conn.Config.FrameSize, user: c.user, typed: c.typed, table: amqp091.Table{}},
	}, nil
}

// publish sends a message. What is not confirmed because it could never be sent is Permanent.
func (ch *channel) publish(exchange string, m *publisher.Message) (*amqp091.DeferredConfirmation, error) {
	p, err := ch.writer.publishing(m)
	if err != nil {
		return nil, err
	}
	const immediate = false
	return ch.amqp.PublishWithDeferredConfirm(exchange, m.Topic, !ch.conn.unrouted, immediate, p)
}

// closed tells whether the channel has ended. The library sends its notice before it turns the
// unanswered confirms false, so a false confirm on a channel that is not closed is the broker's.
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

// collect takes over what the broker has given back so far, and reports whether there is anything. Several calls may wait for
// messages of one channel.
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
				ch.returned = map[keptID]*amqp091.Return{}
			}
			ch.returned[keptID{route{r.Exchange, r.RoutingKey}, r.MessageId}] = &r
		default:
			return len(ch.returned) > 0
		}
	}
}

// givenBack returns what the broker said when it gave back a message, nil if it has not.
func (ch *channel) givenBack(to route, id string) *amqp091.Return {
	ch.returning.Lock()
	defer ch.returning.Unlock()
	return ch.returned[keptID{to, id}]
}

// forgetReturns forgets messages that were matched.
func (ch *channel) forgetReturns(matched ...amqp091.Return) {
	ch.returning.Lock()
	defer ch.returning.Unlock()
	for _, r := range matched {
		delete(ch.returned, keptID{route{r.Exchange, r.RoutingKey}, r.MessageId})
	}
}
