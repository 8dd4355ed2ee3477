package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	e := &examination{p: p, conn: conn, seen: map[string]bool{"": true}}
	if !e.server(ctx) {
		return e.List // a blocked connection no longer answers anything
	}
	e.routes(ctx, addresses)
	e.managed(ctx)
	return e.List
}

// An examination gathers findings.
type examination struct {
	p         *Publisher
	conn      *connection
	seen      map[string]bool // exchanges that were looked for, and whether they exist
	exchanges []string        // those that do, without the default exchange
	queues    []string        // queues of the default exchange that exist

	client     *http.Client // for the management interface
	management *url.URL     // with user and password
	finding.List
}

// server reports which server answers, and whether it takes messages. The broker reports an alarm only to connections
// that publish.
func (e *examination) server(ctx context.Context) (takes bool) {
	address, is := e.conn.address, e.conn.amqp.Properties
	e.Well(inspect.Reach, address, fmt.Sprintf("answers; the virtual host is %q", e.conn.amqp.Config.Vhost))
	inspect.Protection(&e.List, address, true, e.conn.amqp.ConnectionState().Version != 0,
		"let the broker listen with TLS, and write amqps://")
	inspect.Tested(&e.List, address, fmt.Sprint(is["product"], " ", is["version"]), "RabbitMQ", 3, 10)
	e.Add(checkDurability, "", finding.WarnIf(e.p.config.Unrouted,
		e.p.names.Of("Unrouted")+": rows that no queue takes count as relayed, and are lost",
		"let rows need a queue, unless the exchange returns what it delivers later (x-delayed-message)"))
	_ = e.rehearse(ctx, e.p.config.Exchange, "") // what is wrong with the exchange is found below
	err := e.conn.usable()
	e.Add(checkAlarms, address,
		finding.OKIf(err == nil, "it takes messages: no alarm of memory or disk"),
		finding.FailIf(e.conn.blocked.Load() != nil, errtext.Line(err), "see rabbitmq-diagnostics alarms"),
		finding.WarnIf(true, "whether it takes messages is not known: "+errtext.Line(err), "see the broker's log"))
	return err == nil
}

// rehearseTime is how long the broker may take to refuse a message, or to report an alarm.
const rehearseTime = 3 * time.Second

// rehearse publishes an empty message in a transaction, and rolls the transaction back: nobody ever receives it.
func (e *examination) rehearse(ctx context.Context, exchange, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, rehearseTime)
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

// routes examines the exchanges, and whether the routing keys may be published to.
func (e *examination) routes(ctx context.Context, addresses []publisher.Address) {
	e.exchangeExists(ctx, e.p.config.Exchange)
	legal := func(to publisher.Address) error {
		m := &publisher.Message{Topic: to.Topic, Exchange: to.Exchange}
		_, err := (&writer{table: amqp091.Table{}}).publishing(m)
		return err
	}
	for _, to := range inspect.Legal(&e.List, addresses, e.p.names, legal) {
		to.Exchange = cmp.Or(to.Exchange, e.p.config.Exchange)
		subject := fmt.Sprintf("%.100q", to.Topic)
		if to.Exchange != e.p.config.Exchange {
			subject += fmt.Sprintf(" on exchange %.100s", to.Exchange)
		}
		if !e.exchangeExists(ctx, to.Exchange) || to.Exchange == "" && !e.queueExists(ctx, to.Topic, subject) {
			continue
		}
		err := e.rehearse(ctx, to.Exchange, to.Topic)
		e.Add(inspect.Permission, subject,
			finding.OKIf(err == nil, "this user may publish to it"),
			finding.FailIf(true, errtext.Line(err), "grant the right to write to the exchange, and for the routing "+
				"key if topic permissions are used; for anything else see the broker's log"))
	}
}

// exchangeExists looks for an exchange, once.
func (e *examination) exchangeExists(ctx context.Context, name string) bool {
	if exists, seen := e.seen[name]; seen {
		return exists
	}
	err := e.conn.checkExchange(ctx, name, false, true)
	if e.seen[name] = err == nil; err == nil {
		e.exchanges = append(e.exchanges, name)
	}
	e.Add(checkExchange, name,
		finding.OKIf(err == nil, "exists"),
		finding.FailIf(true, errtext.Line(err)+"; its rows are held", "declare it, durable, or correct "+
			e.p.names.Of("Exchange")+"; or see the right to it"))
	return err == nil
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
		finding.FailIf(true, errtext.Line(err)+"; its rows are held", "declare the queue, durable and not exclusive, "+
			"best as a quorum queue; or set "+e.p.names.Of("Exchange")+" to an exchange"))
	if err == nil {
		e.queues = append(e.queues, name)
	}
	return err == nil
}
