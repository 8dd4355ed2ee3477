package amqp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
)

// askManagement determines whether the management interface answers this user, and what it reports about the cluster. It
// returns false if the interface does not answer.
func (e *examination) askManagement(ctx context.Context) bool {
	remedy := "check " + e.names.Of("Management") + " (the interface is usually on port 15672, with TLS on 15671), and that the plugin " +
		"rabbitmq_management is enabled"
	m, err := e.conn.Management(ctx)
	if err != nil {
		e.Warn(checkManagement, "", errtext.Line(err), remedy)
		return false
	}
	var self struct{ Name string }
	err = m.Get(ctx, &self, "", "whoami")
	if refused, is := errors.AsType[*rabbitmq.Refusal](err); is {
		e.Warn(checkManagement, m.Address, fmt.Sprintf("it lets user %q see nothing (%s), so queues and bindings were not looked at", m.Name(),
			errtext.Line(refused)),
			"correct user and password, or name another user in "+e.names.Of("Management")+"; it needs the tag monitoring (rabbitmqctl "+
				"set_user_tags) and access to the vhost")
		return false
	}
	if err == nil && self.Name == "" {
		err = errors.New("its answer is not that of RabbitMQ's management interface")
	}
	if err != nil {
		e.Warn(checkManagement, m.Address, "queues and bindings were not looked at: "+errtext.Line(err), remedy)
		return false
	}
	e.management = m
	e.Well(checkManagement, m.Address, fmt.Sprintf("user %q may look at queues and bindings", self.Name))
	e.cluster(ctx)
	return true
}

// mostQueues is how many queues are described: one exchange may have thousands.
const mostQueues = 100

// bindings looks for the queues of each route, given as routing keys by exchange, and describes them.
func (e *examination) bindings(ctx context.Context, keys map[string][]string) {
	r := &routes{management: e.management, exchanges: map[string]*exchangeInfo{}}
	var reached []route        // routes that have queues
	by := map[route][]string{} // the queues of each route
	all := map[string]*queueInfo{}
	for _, exchange := range slices.Sorted(maps.Keys(keys)) {
		if exchange != "" && !e.describeExchange(ctx, r, exchange) {
			continue
		}
		for _, key := range keys[exchange] {
			to := route{exchange, key}
			if by[to] = e.destinations(ctx, r, to); len(by[to]) > 0 {
				reached = append(reached, to)
			}
			for _, name := range by[to] {
				all[name] = nil
			}
		}
	}
	names := slices.Sorted(maps.Keys(all))
	if len(names) > mostQueues {
		e.Warn(checkDurability, "", fmt.Sprintf("only the first %d of %d queues were looked at", mostQueues, len(names)),
			"look at the others with rabbitmqctl list_queues name type durable")
		names = names[:mostQueues]
	}
	for _, name := range names {
		q := &queueInfo{}
		if err := e.management.Get(ctx, q, queueColumns, "queues", e.management.Vhost, name); err != nil {
			e.unseen(checkDurability, fmt.Sprintf("queue %.100q", name), err)
			continue
		}
		all[name] = q
		e.describe(q)
	}
	weak := func(name string) bool { return all[name] != nil && !all[name].lasts() }
	for _, to := range reached {
		if !slices.ContainsFunc(by[to], func(name string) bool { return !weak(name) }) {
			e.Fail(checkDurability, e.subject(to),
				"none of its queues outlives a restart of the broker: rows count as relayed, and their messages may be lost",
				"bind a durable queue for it")
		}
		e.rejecting(to, by[to], all)
	}
}

// rejecting reports a route where one of several queues rejects messages when it is full: the other queues keep what the relay
// publishes again.
func (e *examination) rejecting(to route, queues []string, all map[string]*queueInfo) {
	if len(queues) < 2 {
		return
	}
	for _, name := range queues {
		if q := all[name]; q != nil && q.rejects() {
			e.Warn(checkLimits, e.subject(to),
				fmt.Sprintf("it goes to %d queues, of which %.100q rejects when it is full: then its rows are held, and each try puts a copy into "+
					"the others", len(queues), name),
				"take the overflow reject-publish from that queue, or have its rows published on a route of its own")
			return
		}
	}
}

// describeExchange reports whether an exchange survives a restart, and returns whether its routes can be followed.
func (e *examination) describeExchange(ctx context.Context, r *routes, name string) bool {
	found, err := r.exchange(ctx, name)
	if err != nil {
		e.unseen(checkExchange, name, err)
		return false
	}
	switch {
	case !found.Durable:
		e.Warn(checkDurability, name, "this exchange is not durable: after a restart of the broker it is gone, and rows are held",
			"declare it again as durable")
	case found.AutoDelete:
		e.Warn(checkDurability, name, "this exchange is deleted when its last binding goes (auto-delete), and rows are held",
			"declare it again without auto-delete")
	default:
		e.Well(checkDurability, name, "this exchange is durable, of type "+found.Type)
	}
	if found.Type == "x-delayed-message" && !e.conn.Unrouted {
		e.Fail(checkExchange, name,
			"it is of type x-delayed-message, which returns each message that it delays, but delivers it later: such rows are never "+
				"relayed, and each try is another copy",
			"publish to an exchange of another type, without the header x-delay, since rows can wait themselves, with available_at; or set "+
				e.names.Of("Unrouted"))
	}
	if _, err := found.matcher(name); err != nil {
		e.unseen(checkTopic, "", err)
		return false
	}
	return true
}

// destinations returns the queues that a route reaches.
func (e *examination) destinations(ctx context.Context, r *routes, to route) []string {
	if to.exchange == "" {
		return []string{to.topic} // this queue was looked up before
	}
	subject := e.subject(to)
	queues, err := r.queues(ctx, to.exchange, to.topic)
	switch {
	case err != nil:
		e.unseen(checkTopic, subject, err)
	case len(queues) == 0:
		e.Fail(checkTopic, subject, "no queue of exchange "+to.exchange+" takes this routing key, so its rows are "+e.withoutRoute(),
			"bind a queue for it")
	default:
		const most = 5
		text := strings.Join(queues[:min(len(queues), most)], ", ")
		if more := len(queues) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		e.Well(checkTopic, subject, "goes to queue "+text)
	}
	return queues
}

// unseen reports what could not be examined.
func (e *examination) unseen(check, subject string, err error) {
	switch err := err.(type) { //nolint:errorlint // get and routes return them as they are
	case *unknownRoute:
		e.Warn(check, subject, fmt.Sprintf("exchange %s: %s, so which queues take the rows was not looked at", err.exchange, err.reason),
			"see with rabbitmqctl list_bindings that queues take them; rows that none takes are held")
	case *rabbitmq.Refusal:
		e.Warn(check, subject, "the management interface does not show it: "+errtext.Line(err),
			"give its user access to the vhost: rabbitmqctl set_permissions")
	default:
		e.Warn(check, subject, "the management interface does not report it: "+errtext.Line(err), "ask again; look at the broker's log")
	}
}
