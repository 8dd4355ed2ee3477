package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// askManagement determines whether the management interface answers this user.
func (e *examination) askManagement(ctx context.Context) bool {
	remedy := "check " + e.names.Of("Management") + " (the interface is usually on port 15672, with TLS on 15671), " +
		"and that the plugin rabbitmq_management is enabled"
	m, err := e.conn.Management(ctx)
	if err != nil {
		e.Warn(checkManagement, "", errtext.Line(err), remedy)
		return false
	}
	var self struct{ Name string }
	err = m.Get(ctx, &self, "", "whoami")
	_, refused := errors.AsType[*rabbitmq.Refusal](err)
	if err == nil && self.Name == "" {
		err = errors.New("its answer is not that of RabbitMQ's management interface")
	}
	e.Add(checkManagement, m.Address,
		finding.OKIf(err == nil, fmt.Sprintf("user %q may look at queues and bindings", self.Name)),
		finding.WarnIf(refused, fmt.Sprintf("it lets user %q see nothing (%s), so queues and bindings were not looked "+
			"at", m.Name(), errtext.Line(err)),
			"correct user and password, or name another user in "+e.names.Of("Management")+"; it needs the tag "+
				"monitoring (rabbitmqctl set_user_tags) and access to the vhost"),
		finding.WarnIf(true, "queues and bindings were not looked at: "+errtext.Line(err), remedy))
	if err != nil {
		return false
	}
	e.management = m
	return true
}

// mostQueues is how many queues are described: one exchange may have thousands.
const mostQueues = 100

// queues describes the exchanges, the queues that are bound to them, and the given ones of the default exchange.
func (e *examination) queues(ctx context.Context, exchanges, names []string) {
	lasts := map[string]bool{} // the queues that were looked at
	left := 0
	// examine examines the queues to which an exchange, or a routing key of the default exchange, leads.
	examine := func(from string, queues []string) {
		lasting := len(queues) == 0
		for _, name := range queues {
			last, seen := lasts[name]
			switch {
			case seen:
			case len(lasts) == mostQueues:
				left, last = left+1, true // one that was not looked at may last
			default:
				last = e.queue(ctx, name)
				lasts[name] = last
			}
			lasting = lasting || last
		}
		e.Add(checkDurability, from, finding.FailIf(!lasting,
			"none of its queues outlives a restart of the broker: rows count as relayed, and their messages may be "+
				"lost", "bind a durable queue for it"))
	}
	for _, exchange := range exchanges {
		examine(exchange, e.exchange(ctx, exchange))
	}
	for _, name := range names {
		examine(e.subject(publisher.Address{Topic: name}), []string{name})
	}
	e.Add(checkDurability, "", finding.WarnIf(left > 0, fmt.Sprintf("only the first %d queues were looked at, %d were "+
		"not", mostQueues, left), "look at the others with rabbitmqctl list_queues name type durable"))
}

// exchange examines an exchange, and returns the queues that are bound to it.
func (e *examination) exchange(ctx context.Context, name string) (queues []string) {
	var found struct {
		Type       string
		Durable    bool
		AutoDelete bool `json:"auto_delete"`
		Arguments  rabbitmq.Options
		Policy     string
	}
	var bindings []struct {
		Destination string
		Kind        string `json:"destination_type"`
	}
	path := []string{"exchanges", e.management.Vhost, name}
	err := e.management.Get(ctx, &found, "", path...)
	if err == nil {
		err = e.management.Get(ctx, &bindings, "destination,destination_type", append(path, "bindings", "source")...)
	}
	if err != nil {
		e.unseen(checkExchange, name, err)
		return nil
	}
	e.Add(checkDurability, name,
		finding.WarnIf(!found.Durable, "this exchange is not durable: after a restart of the broker it is gone, and "+
			"rows are held", "declare it again as durable"),
		finding.WarnIf(found.AutoDelete, "this exchange is deleted when its last binding goes (auto-delete), and rows "+
			"are held", "declare it again without auto-delete"),
		finding.OKIf(true, "this exchange is durable, of type "+found.Type))
	e.Add(checkExchange, name, finding.FailIf(found.Type == "x-delayed-message" && !e.conn.Unrouted,
		"it is of type x-delayed-message, which returns each message that it delays, but delivers it later: such rows "+
			"are never relayed, and each try is another copy",
		"publish to an exchange of another type, without the header x-delay, since rows can wait themselves, with "+
			"available_at; or set "+
			e.names.Of("Unrouted")))
	for _, b := range bindings {
		if b.Kind == "queue" {
			queues = append(queues, b.Destination)
		}
	}
	slices.Sort(queues)
	queues = slices.Compact(queues)
	_, alternate := found.Arguments["alternate-exchange"]
	const most = 5
	text := "queues that are bound to it: " + cmp.Or(strings.Join(queues[:min(len(queues), most)], ", "),
		"none, only exchanges")
	if more := len(queues) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	const later = "; RabbitMQ decides which of them a routing key reaches, and rows that reach none are "
	e.Add(inspect.Topic, name,
		finding.FailIf(len(bindings) == 0 && !alternate && found.Policy == "",
			"nothing is bound to this exchange, so its rows are "+e.unrouted, "bind a queue for them"),
		finding.OKIf(true, text+later+e.unrouted))
	return queues
}

// unseen reports what could not be examined.
func (e *examination) unseen(check, subject string, err error) {
	e.Warn(check, subject, "the management interface does not show it: "+errtext.Line(err),
		"give its user access to the vhost (rabbitmqctl set_permissions), or look at the broker's log")
}
