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
// since the broker has done with it what it could.
func returned(r *amqp091.Return) error {
	if r.Exchange == "" {
		return publisher.TopologyError("no queue", "there is no queue %q (%d %s): declare it", r.RoutingKey, r.ReplyCode, r.ReplyText)
	}
	return publisher.TopologyError("no route", "no queue is bound to exchange %q for routing key %q (%d %s): bind one",
		r.Exchange, r.RoutingKey, r.ReplyCode, r.ReplyText)
}

// nacked is the answer for a negative confirm. RabbitMQ gives it for the state of a queue, never
// for the content of a message: a length limit with reject-publish, a quorum queue that failed.
func nacked(topic string) error {
	return publisher.UnavailableError(publisher.ScopeTopic, "queue rejects",
		"RabbitMQ did not take the message for %q: a queue is full, has failed, or lacks the majority of its nodes", topic)
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
