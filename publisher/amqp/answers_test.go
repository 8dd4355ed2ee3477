package amqp_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// The meaning of each answer of the broker for a message that is alone on its channel, with the reason.
func TestAnswers(t *testing.T) {
	t.Parallel()
	closing := func(code uint16) func(*sent) { return func(m *sent) { m.closeChannel(code, "REASON") } }
	dying := func(code uint16) func(*sent) { return func(m *sent) { m.conn.closeConnection(code, "REASON") } }
	for _, test := range []struct {
		name   string
		answer func(m *sent)
		class  publisher.Class
		scope  publisher.Scope
		why    string
	}{
		{"ack", (*sent).ack, publisher.Accepted, 0, "every queue that takes it has it safe"},
		{
			"return, then ack", func(m *sent) { m.sendBack(); m.ack() }, publisher.Topology, publisher.ScopeTopic,
			"no queue takes it; the ack only says that the broker is done",
		},
		{
			"nack", (*sent).nack, publisher.Unavailable, publisher.ScopeTopic,
			"a queue is full and rejects, or has failed; never the content",
		},
		{"311", closing(amqp091.ContentTooLarge), publisher.Permanent, 0, "the body is beyond a limit of the protocol"},
		{
			"403", closing(amqp091.AccessRefused), publisher.Topology, publisher.ScopeTopic,
			"the user has no right to this exchange or routing key; somebody grants it",
		},
		{
			"404", closing(amqp091.NotFound), publisher.Topology, publisher.ScopeDestination,
			"the configured exchange went away; every message needs it",
		},
		{
			"405", closing(amqp091.ResourceLocked), publisher.Refused, 0,
			"unheard of for a publish: it counts, so that the row ends",
		},
		{
			"406", closing(amqp091.PreconditionFailed), publisher.Permanent, 0,
			"beyond max_message_size, or a property that no retry changes",
		},
		{
			"541", closing(amqp091.InternalError), publisher.Refused, 0,
			"the broker breaks on this message, alone: it counts, so that the row ends",
		},
		{"320", dying(amqp091.ConnectionForced), publisher.Ambiguous, 0, "the node stops; the message may be stored"},
		{"501", dying(amqp091.FrameError), publisher.Ambiguous, 0, "the connection dies; the message may be stored"},
		{"504", dying(amqp091.ChannelError), publisher.Ambiguous, 0, "the connection dies; the message may be stored"},
		{"506", dying(amqp091.ResourceError), publisher.Ambiguous, 0, "the node lacks resources; the message may be stored"},
		{
			"540", dying(amqp091.NotImplemented), publisher.Ambiguous, 0,
			"the connection dies; a row that kills it alone, again and again, is refused by the relay",
		},
		{
			"541 of the connection", dying(amqp091.InternalError), publisher.Ambiguous, 0,
			"the connection dies; the message may be stored",
		},
		{"connection cut", func(m *sent) { _ = m.conn.Close() }, publisher.Ambiguous, 0, "sent, and no answer"},
		{"no answer", nil, publisher.Ambiguous, 0, "sent, and no answer: a queue without majority confirms nothing"},
		{
			"530 of the connection", dying(amqp091.NotAllowed), publisher.Unavailable, 0,
			"a limit, or the virtual host: nobody's fault",
		},
		{"blocked", func(m *sent) {
			m.conn.block("low on disk")
		}, publisher.Unavailable, 0, "the confirm comes after the alarm"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var done atomic.Bool
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			f := newFake(t, listen(t), func(m *sent) {
				switch {
				case done.Swap(true):
					m.ack()
				case test.answer == nil:
					cancel() // the call ends before the silence counts as that of a queue
				default:
					test.answer(m)
				}
			})
			p := f.open(t, "exchange")
			err := p.Publish(ctx, numbered(1, 0, "topic"))[0]
			want(t, fmt.Sprintf("a message (%s)", test.why), err, test.class)
			if err != nil && publisher.ScopeOf(err) != test.scope {
				t.Errorf("the answer reaches %v, want %v", publisher.ScopeOf(err), test.scope)
			}
			if test.name == "blocked" {
				return // until the broker reports otherwise
			}
			// Nothing of it remains.
			await(t, func() bool { return p.Publish(within(t, 10*time.Second), numbered(1, 0, "other"))[0] == nil })
		})
	}
}
