package amqp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// noExchange returns the answer if an exchange cannot be used. The rows wait until it is created; the relay creates
// nothing itself. The configured exchange is the destination: without it, all rows wait. One that messages name
// themselves holds only these.
func noExchange(named bool, name, short, format string, args ...any) error {
	answer := &publisher.Error{Class: publisher.Topology, Short: short, Err: fmt.Errorf(format, args...)}
	if named {
		answer.Scope = publisher.ScopeTopic
		answer.Fate = publisher.Fate{Kind: publisher.FateExchange, Name: strings.Clone(name)}
	}
	return answer
}

// trouble returns the answer for messages of a route that is in trouble.
func (r route) trouble(class publisher.Class, short, format string, args ...any) *publisher.Error {
	return &publisher.Error{
		Class: class, Scope: publisher.ScopeTopic, Fate: r.fate(), Short: short, Err: fmt.Errorf(format, args...),
	}
}

// fate names the trouble of a route. On the default exchange it is the queue. On any other exchange it is the route,
// because a publisher cannot learn to which queues a routing key leads, or whether the key matters. The names are
// copied, because a fate outlives the call and its texts.
func (r route) fate() publisher.Fate {
	if r.exchange == "" {
		return publisher.Fate{Kind: publisher.FateQueue, Name: strings.Clone(r.topic)}
	}
	return publisher.Fate{Kind: publisher.FateTopic, Name: r.exchange + "/" + r.topic}
}

// returned is the answer for a mandatory message that the broker returned. The broker confirms such a message as well,
// because it has done all that it could with it. An exchange of type x-delayed-message returns a message that it keeps
// to deliver later. Its row waits for the queue or the binding, and spends no attempt.
func returned(r *amqp091.Return, names setting.Names) error {
	to := route{r.Exchange, r.RoutingKey}
	if to.exchange == "" {
		return to.trouble(publisher.Topology, "no queue", "there is no queue %q (%d %s): declare it", to.topic,
			r.ReplyCode, r.ReplyText)
	}
	answer := to.trouble(publisher.Topology, "no route",
		"no queue is bound to exchange %q for routing key %q (%d %s): bind one", to.exchange, to.topic, r.ReplyCode,
		r.ReplyText)
	if _, delayed := r.Headers["x-delay"]; delayed {
		answer.Repeats = true
		answer.Err = fmt.Errorf("%w; if the exchange is of type x-delayed-message, which returns each message with "+
			"the header x-delay and delivers it all the same, use one of another type, or set %s", answer.Err,
			names.Of("Unrouted"))
	}
	return answer
}

// nacked is the answer for a negative confirm, in the given number of calls in a row on the route. RabbitMQ sends it
// because of the state of a queue, never because of the content of a message: a length limit with reject-publish, or a
// quorum queue that has failed. On an exchange with several queues, one such queue is enough for a negative confirm,
// and the other queues keep the message. On the default exchange, only overflow reject-publish-dlx leaves a copy, which
// a publisher cannot see; tries become rare there once the queue has been full for some time. A full queue of that kind
// was tried 2.6 times a second, and its dead letter queue got 355 copies of 200 rows in a minute.
func nacked(to route, inRow int) error {
	answer := to.trouble(publisher.Unavailable, "queue rejects",
		"RabbitMQ did not take the message for %q on exchange %q: a queue is full, has failed, or lacks the majority "+
			"of its nodes", to.topic, to.exchange)
	answer.Repeats = to.exchange != "" || inRow >= stubborn
	return answer
}

// stalled is the answer for messages of a route that confirms nothing while the broker answers otherwise. Messages that
// were sent are not sent again for some time.
func stalled(to route) error {
	return to.trouble(publisher.Unavailable, "no answer",
		"RabbitMQ answers, and confirms no message for %q on exchange %q: see whether a queue lacks the majority of "+
			"its nodes, or is between leaders", to.topic, to.exchange)
}

// unanswered is the answer for a message that was sent before the call or the connection ended. The relay publishes it
// again with the same id, by which consumers recognise it; RabbitMQ itself compares no ids.
func unanswered(err error) error {
	if errors.Is(err, publisher.ErrNotAttempted) {
		return publisher.AmbiguousError("no answer", "RabbitMQ did not confirm the message in time")
	}
	return publisher.AmbiguousError("no answer", "the message was sent and not confirmed: %w", err)
}

// guilty is the answer for a message that was alone on a channel when the broker closed the channel. An error that
// closes the whole connection, whatever its code, implies nothing about a single message; the answer is then
// [unanswered]. The codes are those of the channel's end: 404, 403, 406 (or 311 for a payload that is too large), and
// others, which spend an attempt because only this message was there.
func guilty(exchange string, m *publisher.Message, cause *amqp091.Error) error {
	switch cause.Code {
	case amqp091.NotFound:
		return noExchange(m.Exchange != "", exchange, "no exchange",
			"RabbitMQ does not find the exchange %q: declare it: %w", exchange, cause)
	case amqp091.AccessRefused:
		return route{exchange, m.Topic}.trouble(publisher.Topology, "access refused",
			"RabbitMQ refuses publishing to %q on exchange %q: grant the right to write, or renew the token; instead "+
				"of an internal exchange, use one that is bound to it: %w", m.Topic, exchange, cause)
	case amqp091.PreconditionFailed, amqp091.ContentTooLarge:
		return publisher.PermanentError("message refused",
			"RabbitMQ refused the message of %d bytes (payload %d; its limit is max_message_size): %w",
			m.Size(), len(m.Payload), cause)
	default:
		return publisher.RefusedError("message refused", "RabbitMQ closed the channel on this message: %w", cause)
	}
}
