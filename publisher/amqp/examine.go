package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// Names of checks besides those in package inspect, as scripts read them.
const (
	checkChannels   = "channels"
	checkAlarms     = "alarms"
	checkExchange   = "exchange"
	checkDurability = "durability"
	checkManagement = "management"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine implements [publisher.Examiner]: it examines the connection, the exchanges and, on the default exchange, the
// queues, over the connection that rows use. AMQP reports neither how a queue is replicated nor what is bound to an
// exchange. The management interface is asked for that if it is configured; otherwise a finding says so. Which of an
// exchange's queues take a routing key is left to the broker.
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	if p.life.Enter() { // otherwise the publisher is closed, and there is no connection
		defer p.life.Leave()
	}
	conn, err := p.keeper.Borrow(ctx, true)
	if err != nil {
		return connect.Unusable("", err, "check "+p.names.Of("URL")+", that the broker runs, and the network")
	}
	defer conn.Users.Add(-1)
	e := &examination{p: p, conn: conn}
	e.server()
	e.Add(checkDurability, "", finding.WarnIf(p.config.Unrouted,
		e.p.names.Of("Unrouted")+": rows that no queue takes count as relayed, and are lost",
		"let rows need a queue, unless the exchange returns what it delivers later (x-delayed-message)"))
	if !e.alarms(ctx) {
		return e.List // a blocked connection no longer answers anything
	}
	exchanges, queues := e.routes(ctx, addresses)
	if p.config.Management != nil {
		e.managed(ctx, exchanges, queues)
	} else if len(addresses) > 0 || p.config.Exchange != "" {
		e.Warn(checkManagement, "", "whether queues are bound, durable and replicated, and what a full one does, was "+
			"not looked at: AMQP does not report it", "set "+e.p.names.Of("Management"))
	}
	return e.List
}

// routes examines the exchanges and the routes to them. It returns the exchanges that exist, and the queues of the
// default exchange that do.
func (e *examination) routes(ctx context.Context, addresses []publisher.Address) (exchanges, queues []string) {
	exists := map[string]bool{"": true} // exchanges that were looked for
	look := func(exchange string) bool {
		if _, seen := exists[exchange]; !seen {
			if exists[exchange] = e.exchangeExists(ctx, exchange); exists[exchange] {
				exchanges = append(exchanges, exchange)
			}
		}
		return exists[exchange]
	}
	look(e.p.config.Exchange)
	legal := func(to publisher.Address) error {
		m := &publisher.Message{Topic: to.Topic, Exchange: to.Exchange}
		_, err := (&writer{table: amqp091.Table{}}).publishing(m)
		return err
	}
	for _, to := range inspect.Legal(&e.List, addresses, e.p.names, legal) {
		to.Exchange = cmp.Or(to.Exchange, e.p.config.Exchange)
		if look(to.Exchange) && e.route(ctx, to) && to.Exchange == "" {
			queues = append(queues, to.Topic)
		}
	}
	return exchanges, queues
}

// subject names a route, with the exchange if it is not the configured one.
func (e *examination) subject(to publisher.Address) string {
	if to.Exchange == e.p.config.Exchange {
		return fmt.Sprintf("%.100q", to.Topic)
	}
	return fmt.Sprintf("%.100q on exchange %.100s", to.Topic, to.Exchange)
}

// An examination gathers findings.
type examination struct {
	p          *Publisher
	conn       *connection
	management *management     // nil if none is configured
	lasts      map[string]bool // by queue that was looked at, whether it outlives a restart
	finding.List
}

// server reports which server answers.
func (e *examination) server() {
	e.Well(inspect.Reach, e.conn.address, fmt.Sprintf("answers; the virtual host is %q", e.conn.amqp.Config.Vhost))
	channels := fmt.Sprintf("the relay may open %d channels on its connection", cap(e.conn.pool))
	e.Add(checkChannels, e.conn.address,
		finding.WarnIf(e.conn.limit != "", channels+", so batches take turns: "+e.conn.limit,
			"raise the limit of channels to 5 for each replica: rabbitmqctl set_user_limits, or channel_max"),
		finding.OKIf(true, channels))
	inspect.Protection(&e.List, e.conn.address, true, e.conn.amqp.ConnectionState().Version != 0,
		"let the broker listen with TLS, and write amqps://")
	is := e.conn.amqp.Properties
	inspect.Tested(&e.List, e.conn.address, fmt.Sprint(is["product"], " ", is["version"]), "RabbitMQ", 3, 10)
}

// alarmTimeout is how long the broker may take to report an alarm.
const alarmTimeout = 3 * time.Second

// alarms reports whether the broker blocks publishing, and returns false if it does. The broker reports that only to
// connections that publish, so a message is published within a transaction, which is rolled back: nobody ever
// receives it.
func (e *examination) alarms(ctx context.Context) bool {
	err := e.rehearse(ctx, e.p.config.Exchange, "")
	if code(err) == amqp091.AccessRefused || code(err) == amqp091.NotFound {
		err = nil // the broker has examined the message, and reports the problem again below
	}
	reason := cmp.Or(e.conn.blocked.Load(), new(string))
	e.Add(checkAlarms, e.conn.address,
		finding.FailIf(e.conn.blocked.Load() != nil, "it has blocked publishing ("+*reason+")",
			"free memory or disk on the broker, or raise its limits; see rabbitmq-diagnostics alarms"),
		finding.WarnIf(err != nil && ctx.Err() == nil, "it does not say whether it takes messages: "+errtext.Line(err),
			"look at its log"),
		finding.OKIf(true, "it takes messages: no alarm of memory or disk"))
	return e.conn.blocked.Load() == nil && !e.conn.amqp.IsClosed()
}

// rehearse publishes an empty message in a transaction, and rolls the transaction back.
func (e *examination) rehearse(ctx context.Context, exchange, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, alarmTimeout)
	defer cancel()
	return e.conn.onPlainChannel(ctx, func(ch *amqp091.Channel) error {
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

// exchangeExists looks for an exchange.
func (e *examination) exchangeExists(ctx context.Context, name string) bool {
	err := e.conn.onPlainChannel(ctx, func(ch *amqp091.Channel) error { // a passive declaration ignores the kind
		return ch.ExchangeDeclarePassive(name, amqp091.ExchangeTopic, true, false, false, false, nil)
	})
	e.Add(checkExchange, name,
		finding.OKIf(err == nil, "exists"),
		finding.FailIf(code(err) == amqp091.NotFound, "it does not exist, so its rows are held",
			"declare it, durable, or correct "+e.p.names.Of("Exchange")),
		finding.FailIf(true, errtext.Line(err), "see the right to it, and the broker's log"))
	return err == nil
}

// route examines whether a routing key may be published to and, on the default exchange, has its queue. It returns
// false if the key reaches no queue.
func (e *examination) route(ctx context.Context, to publisher.Address) bool {
	subject := e.subject(to)
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
	err := e.conn.onPlainChannel(ctx, func(ch *amqp091.Channel) (err error) {
		found, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	e.Add(inspect.Topic, subject,
		finding.OKIf(err == nil, fmt.Sprintf("the queue exists, with %d messages and %d consumers", found.Messages,
			found.Consumers)),
		finding.FailIf(code(err) == amqp091.NotFound, "there is no queue of this name, so nothing takes its rows",
			"declare it, durable, best as a quorum queue; or set "+e.p.names.Of("Exchange")+" to an exchange"),
		finding.FailIf(code(err) == amqp091.ResourceLocked, "the queue is exclusive to another connection",
			"declare one that is not exclusive"),
		finding.FailIf(true, errtext.Line(err), "see the state of the queue with rabbitmqctl list_queues name state"))
	return err == nil
}
