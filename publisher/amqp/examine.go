package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Names of what is examined, as scripts read them.
const (
	checkReach          = "reach"
	checkAuthentication = "authentication"
	checkVersion        = "version"
	checkAlarms         = "alarms"
	checkExchange       = "exchange"
	checkTopic          = "topic"
	checkPermission     = "permission"
	checkDurability     = "durability"
	checkManagement     = "management"
	checkCluster        = "cluster"
	checkReplication    = "replication"
	checkLimits         = "limits"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine looks at the connection, the exchanges and, on the default exchange, the queues; see
// [publisher.Examiner]. AMQP does not tell how a queue is replicated, nor what is bound to an exchange:
// that is asked of the management interface, where one is configured, and else said as well.
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	e := &examination{exchange: p.config.Exchange, unrouted: p.config.Unrouted}
	if !p.enter() {
		e.unreachable(publisher.ErrClosed)
		return e.List
	}
	defer p.running.Done()
	conn, err := p.connect(ctx, true)
	if err != nil {
		e.unreachable(err)
		return e.List
	}
	defer conn.release()
	e.conn = conn
	e.server()
	if e.unrouted {
		e.Warn(checkDurability, "", "OUTBOX_AMQP_MANDATORY is false: rows that no queue takes count as relayed, and are lost",
			"write true, unless the exchange gives back what it delivers later (x-delayed-message)")
	}
	managed := p.config.Management != nil && e.askManagement(ctx, p)
	if managed {
		defer e.management.client.CloseIdleConnections()
	}
	if !e.alarms(ctx) {
		return e.List // a blocked connection answers nothing any more
	}
	there := e.routes(ctx, addresses)
	switch {
	case managed:
		e.bindings(ctx, there)
	case p.config.Management == nil && (len(addresses) > 0 || e.exchange != ""):
		e.Warn(checkManagement, "", "whether queues are bound, durable and replicated was not looked at: AMQP does not tell",
			"set OUTBOX_AMQP_MANAGEMENT_URL, or see with rabbitmqctl list_bindings and list_queues name type durable")
	}
	return e.List
}

// routes looks for the exchanges, and at the routes to them. It returns those that are there: routing keys by
// exchange.
func (e *examination) routes(ctx context.Context, addresses []publisher.Address) map[string][]string {
	keys, there := map[string][]string{}, map[string][]string{}
	if e.exchange != "" {
		keys[e.exchange] = nil
	}
	for _, address := range addresses {
		exchange := cmp.Or(address.Exchange, e.exchange)
		keys[exchange] = append(keys[exchange], address.Topic)
	}
	for _, exchange := range slices.Sorted(maps.Keys(keys)) {
		if exchange != "" && !e.lookForExchange(ctx, exchange) {
			continue
		}
		there[exchange] = slices.DeleteFunc(keys[exchange], func(key string) bool { return !e.route(ctx, route{exchange, key}) })
	}
	return there
}

// subject names a route, with the exchange if it is not the one that is configured.
func (e *examination) subject(to route) string {
	if to.exchange == e.exchange {
		return fmt.Sprintf("%.100q", to.topic)
	}
	return fmt.Sprintf("%.100q on exchange %.100s", to.topic, to.exchange)
}

// withoutRoute says what becomes of rows that no queue takes.
func (e *examination) withoutRoute() string {
	if e.unrouted {
		return "lost"
	}
	return "held"
}

// An examination gathers findings.
type examination struct {
	conn       *connection
	exchange   string      // that is configured
	unrouted   bool        // messages need no route
	management *management // nil when it does not answer
	finding.List
}

// unreachable tells why there is no connection.
func (e *examination) unreachable(err error) {
	link, ok := errors.AsType[*linkError](err)
	if !ok {
		e.Fail(checkReach, "", err.Error(), "check the publish URL, that the broker runs, and the network")
		return
	}
	check := checkReach
	switch link.short {
	case "login refused", "no login mechanism", "vhost refused":
		check = checkAuthentication
	}
	e.Fail(check, link.address, link.found, link.remedy)
}

// server tells who answers.
func (e *examination) server() {
	text := func(name string) string {
		value, _ := e.conn.amqp.Properties[name].(string)
		return value
	}
	e.Well(checkReach, e.conn.address, "answers")
	e.Well(checkAuthentication, e.conn.address, fmt.Sprintf("the login succeeds, into virtual host %q", e.conn.amqp.Config.Vhost))
	product, version := text("product"), text("version")
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); product != "RabbitMQ" || err != nil {
		e.Warn(checkVersion, e.conn.address, fmt.Sprintf("it calls itself %.40q, version %.40q, which the relay is not tested with", product,
			version), "use RabbitMQ 3.10 or newer")
	} else if major < 3 || major == 3 && minor < 10 {
		e.Warn(checkVersion, e.conn.address, "RabbitMQ "+version+" is older than what the relay is tested with", "use RabbitMQ 3.10 or newer")
	} else {
		e.Well(checkVersion, e.conn.address, "RabbitMQ "+version)
	}
}

// alarmTimeout is how long the broker may take to tell that it has an alarm.
const alarmTimeout = 3 * time.Second

// alarms tells whether the broker blocks publishing, and returns false if it does. The broker tells that
// only to connections that publish, so a message is published within a transaction, which is rolled
// back: nobody ever gets it.
func (e *examination) alarms(ctx context.Context) bool {
	err := e.rehearse(ctx, e.exchange, "")
	if answer, ok := errors.AsType[*amqp091.Error](err); ok && (answer.Code == amqp091.AccessRefused || answer.Code == amqp091.NotFound) {
		err = nil // it has looked at the message, and says so again below
	}
	switch reason := e.conn.blocked.Load(); {
	case reason != nil:
		e.Fail(checkAlarms, e.conn.address, fmt.Sprintf("it has blocked publishing (%s)", *reason),
			"free memory or disk on the broker, or raise its limits; see rabbitmqctl list_alarms (rabbitmq-diagnostics alarms)")
		return false
	case err != nil && ctx.Err() == nil:
		e.Warn(checkAlarms, e.conn.address, "it does not say whether it takes messages: "+oneLine(err), "look at its log")
		return !e.conn.amqp.IsClosed()
	default:
		e.Well(checkAlarms, e.conn.address, "it takes messages: no alarm of memory or disk")
		return true
	}
}

// rehearse publishes an empty message in a transaction, and rolls that back.
func (e *examination) rehearse(ctx context.Context, exchange, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, alarmTimeout)
	defer cancel()
	return e.conn.ask(ctx, func(conn *amqp091.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		closes := ch.NotifyClose(make(chan *amqp091.Error, 1))
		if err := ch.Tx(); err != nil {
			return err
		}
		if err := ch.PublishWithContext(ctx, exchange, topic, false, false, amqp091.Publishing{}); err != nil {
			return err
		}
		err = ch.TxRollback()
		if errors.Is(err, amqp091.ErrClosed) { // the publish was refused before we asked
			if cause := <-closes; cause != nil {
				return cause
			}
		}
		if err != nil {
			return err
		}
		return ch.Close()
	})
}

// lookForExchange tells whether an exchange is there.
func (e *examination) lookForExchange(ctx context.Context, name string) bool {
	subject := fmt.Sprintf("%.100s", name)
	if err := checkExchangeName(name); err != nil {
		e.Fail(checkExchange, subject, oneLine(err)+", so its rows fail", "correct the rows, or OUTBOX_AMQP_EXCHANGE")
		return false
	}
	if err := e.conn.lookFor(ctx, name, publisher.ScopeDestination); err != nil {
		if answer, ok := errors.AsType[*publisher.Error](err); ok && answer.Short == "no exchange" {
			e.Fail(checkExchange, subject, "it does not exist, so its rows are held", "declare it, durable, or correct OUTBOX_AMQP_EXCHANGE")
		} else {
			e.Fail(checkExchange, subject, oneLine(err), "see the right to it, and the broker's log")
		}
		return false
	}
	e.Well(checkExchange, subject, "exists")
	return true
}

// route tells whether a routing key may be published to and, on the default exchange, has its queue. It
// returns false when it reaches none.
func (e *examination) route(ctx context.Context, to route) bool {
	subject := e.subject(to)
	if len(to.topic) > maxShortString {
		e.Fail(checkTopic, subject, fmt.Sprintf("it has %d bytes, AMQP allows %d, so its rows fail", len(to.topic), maxShortString),
			"correct the rows' topic, or OUTBOX_TOPIC")
		return false
	}
	if to.exchange == "" && !e.queue(ctx, to.topic, subject) {
		return false
	}
	err := e.rehearse(ctx, to.exchange, to.topic)
	switch answer, ok := errors.AsType[*amqp091.Error](err); {
	case ok && answer.Code == amqp091.AccessRefused:
		e.Fail(checkPermission, subject, "this user may not publish to it",
			"grant the right to write to the exchange, and for the routing key if topic permissions are used")
	case err != nil:
		e.Warn(checkPermission, subject, "whether this user may publish to it is not known: "+oneLine(err), "look at the broker's log")
	default:
		e.Well(checkPermission, subject, "this user may publish to it")
	}
	return true
}

// queue looks for the queue that a routing key of the default exchange names.
func (e *examination) queue(ctx context.Context, name, subject string) bool {
	var found amqp091.Queue
	err := e.conn.ask(ctx, func(conn *amqp091.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		queue, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			return err
		}
		found = queue
		return ch.Close()
	})
	switch answer, ok := errors.AsType[*amqp091.Error](err); {
	case err == nil:
		e.Well(checkTopic, subject, fmt.Sprintf("the queue exists, with %d messages and %d consumers", found.Messages, found.Consumers))
		return true
	case ok && answer.Code == amqp091.NotFound:
		e.Fail(checkTopic, subject, "there is no queue of this name, so its rows are "+e.withoutRoute(),
			"declare it, durable, best as a quorum queue; or set OUTBOX_AMQP_EXCHANGE to an exchange")
	case ok && answer.Code == amqp091.ResourceLocked:
		e.Fail(checkTopic, subject, "the queue is exclusive to another connection", "declare one that is not exclusive")
	default:
		e.Fail(checkTopic, subject, oneLine(err), "see the state of the queue with rabbitmqctl list_queues name state")
	}
	return false
}

// oneLine returns an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
