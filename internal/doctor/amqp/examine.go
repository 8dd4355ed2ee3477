// Package amqp examines a RabbitMQ broker: the login, the exchanges, and what its queues' confirms guarantee.
package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Names of checks besides those in package inspect, as scripts read them.
const (
	checkChannels   = "channels"
	checkAlarms     = "alarms"
	checkExchange   = "exchange"
	checkDurability = "durability"
	checkManagement = "management"
)

// maxShortString is the longest routing key, in bytes.
const maxShortString = 255

// Examine examines the connection, the exchanges and, on the default exchange, the queues, over a connection that
// connect makes; see [publisher.Examiner]. AMQP reports neither how a queue is replicated nor what is bound to an
// exchange. The management interface is asked for that if it is configured; otherwise a finding says so. Which of an
// exchange's queues take a routing key is left to the broker.
func Examine(ctx context.Context, connect func(context.Context) (*Connection, error), names setting.Names,
	addresses []publisher.Address,
) []finding.Finding {
	e := &examination{names: names, unrouted: "held"}
	conn, err := connect(ctx)
	if err != nil {
		return []finding.Finding{inspect.Unusable("", err, "check "+names.Of("URL")+", that the broker runs, and the "+
			"network")}
	}
	defer conn.Release()
	if e.conn = conn; conn.Unrouted {
		e.unrouted = "lost"
	}
	e.server()
	e.Add(checkDurability, "", finding.WarnIf(conn.Unrouted,
		names.Of("Unrouted")+": rows that no queue takes count as relayed, and are lost",
		"let rows need a queue, unless the exchange returns what it delivers later (x-delayed-message)"))
	if !e.alarms(ctx) {
		return e.List // a blocked connection no longer answers anything
	}
	exchanges, queues := e.routes(ctx, addresses)
	if conn.Management != nil && e.askManagement(ctx) {
		defer e.management.Close()
		e.queues(ctx, exchanges, queues)
	}
	e.Add(checkManagement, "", finding.WarnIf(conn.Management == nil && (len(addresses) > 0 || conn.Exchange != ""),
		"whether queues are bound, durable and replicated, and what a full one does, was not looked at: AMQP does not "+
			"report it",
		"set "+names.Of("Management")+", or see with rabbitmqctl list_bindings and list_queues name type durable"))
	return e.List
}

// routes examines the exchanges and the routes to them. It returns the exchanges that exist, and the queues of the
// default exchange that do.
func (e *examination) routes(ctx context.Context, addresses []publisher.Address) (exchanges, queues []string) {
	keys := map[string][]string{}
	if e.conn.Exchange != "" {
		keys[e.conn.Exchange] = nil
	}
	for _, address := range addresses {
		exchange := cmp.Or(address.Exchange, e.conn.Exchange)
		keys[exchange] = append(keys[exchange], address.Topic)
	}
	for _, exchange := range slices.Sorted(maps.Keys(keys)) {
		if exchange != "" {
			if !e.lookForExchange(ctx, exchange) {
				continue
			}
			exchanges = append(exchanges, exchange)
		}
		for _, key := range keys[exchange] {
			if e.route(ctx, publisher.Address{Exchange: exchange, Topic: key}) && exchange == "" {
				queues = append(queues, key)
			}
		}
	}
	return exchanges, queues
}

// subject names a route, with the exchange if it is not the configured one.
func (e *examination) subject(to publisher.Address) string {
	if to.Exchange == e.conn.Exchange {
		return fmt.Sprintf("%.100q", to.Topic)
	}
	return fmt.Sprintf("%.100q on exchange %.100s", to.Topic, to.Exchange)
}

// An examination gathers findings.
type examination struct {
	conn       *Connection
	names      setting.Names
	management *rabbitmq.Management // nil if it does not answer
	unrouted   string               // what happens to rows that no queue takes
	finding.List
}

// server reports which server answers.
func (e *examination) server() {
	text := func(name string) string {
		value, _ := e.conn.Properties[name].(string)
		return value
	}
	e.Well(inspect.Reach, e.conn.Address, fmt.Sprintf("answers; the virtual host is %q", e.conn.Config.Vhost))
	channels := fmt.Sprintf("the relay may open %d channels on its connection", e.conn.Channels)
	e.Add(checkChannels, e.conn.Address,
		finding.WarnIf(e.conn.Limit != "", channels+", so batches take turns: "+e.conn.Limit,
			"raise the limit of channels to 5 for each replica: rabbitmqctl set_user_limits, or channel_max"),
		finding.OKIf(true, channels))
	inspect.Protection(&e.List, e.conn.Address, true, e.conn.ConnectionState().Version != 0,
		"let the broker listen with TLS, and write amqps://")
	product, version := text("product"), text("version")
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	e.Add(inspect.Version, e.conn.Address,
		finding.WarnIf(product != "RabbitMQ" || err != nil || major < 3 || major == 3 && minor < 10,
			fmt.Sprintf("it calls itself %.40q, version %.40q, which the relay is not tested with", product, version),
			"use RabbitMQ 3.10 or newer"),
		finding.OKIf(true, "RabbitMQ "+version))
}

// alarmTimeout is how long the broker may take to report an alarm.
const alarmTimeout = 3 * time.Second

// alarms reports whether the broker blocks publishing, and returns false if it does. The broker reports that only to
// connections that publish, so a message is published within a transaction, which is rolled back: nobody ever
// receives it.
func (e *examination) alarms(ctx context.Context) bool {
	err := e.rehearse(ctx, e.conn.Exchange, "")
	if code(err) == amqp091.AccessRefused || code(err) == amqp091.NotFound {
		err = nil // the broker has examined the message, and reports the problem again below
	}
	reason := cmp.Or(e.conn.Blocked(), new(string))
	e.Add(checkAlarms, e.conn.Address,
		finding.FailIf(e.conn.Blocked() != nil, "it has blocked publishing ("+*reason+")",
			"free memory or disk on the broker, or raise its limits; see rabbitmqctl list_alarms "+
				"(rabbitmq-diagnostics alarms)"),
		finding.WarnIf(err != nil && ctx.Err() == nil, "it does not say whether it takes messages: "+errtext.Line(err),
			"look at its log"),
		finding.OKIf(true, "it takes messages: no alarm of memory or disk"))
	return e.conn.Blocked() == nil && !e.conn.IsClosed()
}

// rehearse publishes an empty message in a transaction, and rolls the transaction back.
func (e *examination) rehearse(ctx context.Context, exchange, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, alarmTimeout)
	defer cancel()
	return e.conn.Ask(ctx, func(ch *amqp091.Channel) error {
		closes := ch.NotifyClose(make(chan *amqp091.Error, 1))
		if err := ch.Tx(); err != nil {
			return err
		}
		if err := ch.PublishWithContext(ctx, exchange, topic, false, false, amqp091.Publishing{}); err != nil {
			return err
		}
		err := ch.TxRollback()
		if errors.Is(err, amqp091.ErrClosed) { // the publish was refused before the rollback
			if cause := <-closes; cause != nil {
				return cause
			}
		}
		return err
	})
}

// code returns the code of a broker's refusal, 0 if the error is another one.
func code(err error) int {
	if answer, ok := errors.AsType[*amqp091.Error](err); ok {
		return answer.Code
	}
	return 0
}

// lookForExchange reports whether an exchange exists.
func (e *examination) lookForExchange(ctx context.Context, name string) bool {
	subject := fmt.Sprintf("%.100s", name)
	if err := e.conn.CheckExchange(name); err != nil {
		e.Fail(checkExchange, subject, errtext.Line(err)+", so its rows fail",
			"correct the rows, or "+e.names.Of("Exchange"))
		return false
	}
	err := e.conn.Ask(ctx, func(ch *amqp091.Channel) error { // a passive declaration ignores the kind
		return ch.ExchangeDeclarePassive(name, amqp091.ExchangeTopic, true, false, false, false, nil)
	})
	e.Add(checkExchange, subject,
		finding.OKIf(err == nil, "exists"),
		finding.FailIf(code(err) == amqp091.NotFound, "it does not exist, so its rows are held",
			"declare it, durable, or correct "+e.names.Of("Exchange")),
		finding.FailIf(true, errtext.Line(err), "see the right to it, and the broker's log"))
	return err == nil
}

// route examines whether a routing key may be published to and, on the default exchange, has its queue. It returns
// false if the key reaches no queue.
func (e *examination) route(ctx context.Context, to publisher.Address) bool {
	subject := e.subject(to)
	if len(to.Topic) > maxShortString {
		e.Fail(inspect.Topic, subject, fmt.Sprintf("it has %d bytes, AMQP allows %d, so its rows fail", len(to.Topic),
			maxShortString), "correct the rows' topic, or "+e.names.Of("Topic"))
		return false
	}
	if to.Exchange == "" && !e.queueExists(ctx, to.Topic, subject) {
		return false
	}
	err := e.rehearse(ctx, to.Exchange, to.Topic)
	e.Add(inspect.Permission, subject,
		finding.OKIf(err == nil, "this user may publish to it"),
		finding.FailIf(code(err) == amqp091.AccessRefused, "this user may not publish to it",
			"grant the right to write to the exchange, and for the routing key if topic permissions are used"),
		finding.WarnIf(true, "whether this user may publish to it is not known: "+errtext.Line(err),
			"look at the broker's log"))
	return true
}

// queueExists looks for the queue that a routing key of the default exchange names.
func (e *examination) queueExists(ctx context.Context, name, subject string) bool {
	var found amqp091.Queue
	err := e.conn.Ask(ctx, func(ch *amqp091.Channel) (err error) {
		found, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	e.Add(inspect.Topic, subject,
		finding.OKIf(err == nil, fmt.Sprintf("the queue exists, with %d messages and %d consumers", found.Messages,
			found.Consumers)),
		finding.FailIf(code(err) == amqp091.NotFound, "there is no queue of this name, so its rows "+
			"are "+e.unrouted,
			"declare it, durable, best as a quorum queue; or set "+e.names.Of("Exchange")+" to an exchange"),
		finding.FailIf(code(err) == amqp091.ResourceLocked, "the queue is exclusive to another connection",
			"declare one that is not exclusive"),
		finding.FailIf(true, errtext.Line(err), "see the state of the queue with rabbitmqctl list_queues name state"))
	return err == nil
}
