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
	"github.com/outbox-relay/outbox-relay/internal/printable"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// managed examines exchanges and queues over the management interface, as far as that answers this user.
func (e *examination) managed(ctx context.Context, exchanges, queues []string) {
	m, err := e.conn.newManagement()
	if err != nil {
		e.Warn(checkManagement, "", errtext.Line(err), "correct "+e.p.names.Of("Management"))
		return
	}
	defer m.client.CloseIdleConnections()
	e.management, e.lasts = m, map[string]bool{}
	var self struct{ Name string }
	if err = m.get(ctx, &self, "", "whoami"); err == nil && self.Name == "" {
		err = errors.New("its answer is not that of RabbitMQ's management interface")
	}
	for _, name := range exchanges {
		if err == nil {
			err = e.exchange(ctx, name)
		}
	}
	for _, name := range queues {
		if err == nil {
			err = e.bound(ctx, e.subject(publisher.Address{Topic: name}), []string{name})
		}
	}
	_, refused := errors.AsType[refusal](err)
	e.Add(checkManagement, m.base.Host,
		finding.OKIf(err == nil, fmt.Sprintf("user %q may look at queues and bindings", m.user.Username())),
		finding.WarnIf(refused, fmt.Sprintf("it lets user %q see nothing (%s), so queues and bindings were not looked "+
			"at", m.user.Username(), errtext.Line(err)),
			"correct user and password in "+e.p.names.Of("Management")+"; the user needs the tag monitoring "+
				"(rabbitmqctl set_user_tags) and access to the vhost (set_permissions)"),
		finding.WarnIf(true, "queues and bindings were not looked at: "+errtext.Line(err),
			"check "+e.p.names.Of("Management")+" (usually port 15672, with TLS 15671), and that the plugin "+
				"rabbitmq_management is enabled"))
}

// An exchange may have thousands of queues. mostQueues is how many are described, and mostText the length of the list
// of their names, in characters.
const (
	mostQueues = 100
	mostText   = 300
)

// bound examines the queues to which an exchange, or a routing key of the default exchange, leads.
func (e *examination) bound(ctx context.Context, from string, queues []string) (err error) {
	lasting := len(queues) == 0 || len(queues) > mostQueues
	for _, name := range queues[:min(len(queues), mostQueues)] {
		if _, seen := e.lasts[name]; !seen {
			if e.lasts[name], err = e.queue(ctx, name); err != nil {
				return err
			}
		}
		lasting = lasting || e.lasts[name]
	}
	e.Add(checkDurability, from,
		finding.FailIf(!lasting, "none of its queues outlives a restart of the broker: rows count as relayed, and "+
			"their messages may be lost", "bind a durable queue for it"),
		finding.WarnIf(len(queues) > mostQueues, fmt.Sprintf("only %d of its %d queues were looked at", mostQueues,
			len(queues)), "look at the others with rabbitmqctl list_queues name type durable"))
	return nil
}

// exchange examines an exchange and the queues that are bound to it.
func (e *examination) exchange(ctx context.Context, name string) error {
	var found struct {
		Type       string
		Durable    bool
		AutoDelete bool `json:"auto_delete"`
		Arguments  any
		Policy     string
	}
	var bindings []struct {
		Destination string
		Kind        string `json:"destination_type"`
	}
	path := []string{"exchanges", e.conn.uri.Vhost, name}
	err := e.management.get(ctx, &found, "", path...)
	if err == nil {
		err = e.management.get(ctx, &bindings, "destination,destination_type", append(path, "bindings", "source")...)
	}
	if err != nil {
		return err
	}
	e.Add(checkDurability, name,
		finding.WarnIf(!found.Durable, "this exchange is not durable: after a restart of the broker it is gone, and "+
			"rows are held", "declare it again as durable"),
		finding.WarnIf(found.AutoDelete, "this exchange is deleted when its last binding goes (auto-delete), and rows "+
			"are held", "declare it again without auto-delete"),
		finding.OKIf(true, "this exchange is durable, of type "+found.Type))
	e.Add(checkExchange, name, finding.FailIf(found.Type == "x-delayed-message" && !e.p.config.Unrouted,
		"it is of type x-delayed-message, which returns what it delivers later: such rows are never relayed, and each "+
			"try is another copy", "use available_at and an exchange of another type, or set "+
			e.p.names.Of("Unrouted")))
	var queues []string
	for _, b := range bindings {
		if b.Kind == "queue" {
			queues = append(queues, b.Destination)
		}
	}
	slices.Sort(queues)
	queues = slices.Compact(queues)
	_, alternate := table(found.Arguments)["alternate-exchange"]
	shown := printable.Cut(cmp.Or(strings.Join(queues, ", "), "none, only exchanges"), mostText)
	e.Add(inspect.Topic, name,
		finding.FailIf(len(bindings) == 0 && !alternate && found.Policy == "",
			"nothing is bound to this exchange, so no queue takes its rows", "bind a queue for them"),
		finding.OKIf(true, "queues that are bound to it: "+shown+"; RabbitMQ decides which of them a row reaches"))
	return e.bound(ctx, name, queues)
}
