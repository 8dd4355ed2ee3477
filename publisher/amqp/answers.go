package amqp

import (
	"errors"
	"fmt"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// topology is the answer when something is missing at the broker that everything within scope needs.
func topology(scope publisher.Scope, short, format string, args ...any) error {
	return &publisher.Error{Class: publisher.Topology, Scope: scope, Short: short, Err: fmt.Errorf(format, args...)}
}

// returned is the answer for a mandatory message that the broker gave back. It is confirmed as well,
// since the broker has done with it what it could. An exchange of type x-delayed-message gives back what it keeps to deliver it later.
func returned(r *amqp091.Return) error {
	if r.Exchange == "" {
		return publisher.TopologyError("no queue", "there is no queue %q (%d %s): declare it", r.RoutingKey, r.ReplyCode, r.ReplyText)
	}
	if _, delayed := r.Headers["x-delay"]; delayed {
		return &publisher.Error{Class: publisher.Topology, Scope: publisher.ScopeTopic, Repeats: true, Short: "no route", Err: fmt.Errorf(
			"no queue is bound to exchange %q for routing key %q (%d %s), or it is of type x-delayed-message, which gives back each message with "+
				"the header x-delay and delivers it all the same: bind one, or use an exchange of another type", r.Exchange, r.RoutingKey, r.ReplyCode, r.ReplyText)}
	}
	return publisher.TopologyError("no route", "no queue is bound to exchange %q for routing key %q (%d %s): bind one",
		r.Exchange, r.RoutingKey, r.ReplyCode, r.ReplyText)
}

// nacked is the answer for a negative confirm. RabbitMQ gives it for the state of a queue, never
// for the content of a message: a length limit with reject-publish, a quorum queue that failed. Behind an exchange one of
// several queues is enough for it, and the others keep the message.
func nacked(to route) error {
	if to.exchange == "" {
		return publisher.UnavailableError(publisher.ScopeTopic, "queue rejects",
			"RabbitMQ did not take the message for %q: a queue is full, has failed, or lacks the majority of its nodes", to.topic)
	}
	return repeats("queue rejects", "RabbitMQ did not take the message for %q on exchange %q: a queue is full, has failed, or lacks the majority of its nodes; "+
		"each try adds a copy to the other queues that are bound", to.topic, to.exchange)
}

// unconfirmed is the answer for a message on a route that confirms nothing while others do.
func unconfirmed(to route) error {
	return repeats("no answer", "RabbitMQ has confirmed others and not the message for %q on exchange %q: see whether a queue lacks the majority of its nodes; "+
		"each try may add a copy", to.topic, to.exchange)
}

// repeats is the answer for a message that some queue may have taken, although the topic cannot be published to now.
func repeats(short, format string, args ...any) error {
	return &publisher.Error{Class: publisher.Unavailable, Scope: publisher.ScopeTopic, Repeats: true, Short: short, Err: fmt.Errorf(format, args...)}
}

// unsent returns the answer for the other messages of a route, which are not sent.
func unsent(err error) error {
	if e, ok := errors.AsType[*publisher.Error](err); ok && e.Repeats {
		quiet := *e
		quiet.Repeats = false
		return &quiet
	}
	return err
}

// unanswered is the answer for a message that was sent before the call ended, or the connection.
func unanswered(err error) error {
	if errors.Is(err, publisher.ErrNotAttempted) {
		return publisher.AmbiguousError("no answer", "RabbitMQ did not confirm the message in time")
	}
	return publisher.AmbiguousError("no answer", "the message was sent and not confirmed: %w", err)
}

// guilty is the answer for a message that was alone on a channel when the broker closed it. What closes
// the whole connection, whatever its code, says nothing of one message: it is [unanswered].
func guilty(exchange string, m *publisher.Message, cause *amqp091.Error) error {
	switch cause.Code {
	case amqp091.NotFound:
		scope := publisher.ScopeDestination
		if m.Exchange != "" {
			scope = publisher.ScopeTopic
		}
		return topology(scope, "no exchange", "RabbitMQ does not find the exchange %q: declare it: %w", exchange, cause)
	case amqp091.AccessRefused:
		return publisher.TopologyError("access refused", "RabbitMQ refuses publishing to %q on exchange %q: grant the right to write, or renew the token: %w",
			m.Topic, exchange, cause)
	case amqp091.PreconditionFailed, amqp091.ContentTooLarge:
		return publisher.PermanentError("message refused", "RabbitMQ refused the message of %d bytes: %w", m.Size(), cause)
	default:
		return publisher.RefusedError("message refused", "RabbitMQ closed the channel on this message: %w", cause)
	}
}
