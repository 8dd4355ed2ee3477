package amqp

import (
	"context"
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A queueInfo is what the management interface reports about a queue.
type queueInfo struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Exclusive  bool
	Arguments  rabbitmq.Options
	// Policy is the combination of all policies, nil if it is unknown: it comes with the statistics, some seconds
	// after the queue was created.
	Policy  *rabbitmq.Options `json:"effective_policy_definition"`
	Members []string          // members of a quorum queue or stream, including those that are down
	Online  []string
}

const queueColumns = "name,type,durable,auto_delete,exclusive,arguments,effective_policy_definition,members,online"

// option returns an option from the queue's arguments or, failing that, from its policies.
func (q *queueInfo) option(name string) (any, bool) {
	if value, ok := q.Arguments["x-"+name]; ok {
		return value, true
	}
	if q.Policy == nil {
		return nil, false
	}
	value, ok := (*q.Policy)[name]
	return value, ok
}

// queue reports what an acknowledgement by a queue guarantees, and whether the queue and its messages survive a restart
// of the broker, as far as that is known.
func (e *examination) queue(ctx context.Context, name string) (lasts bool) {
	subject := fmt.Sprintf("queue %.100q", name)
	q := &queueInfo{}
	if err := e.management.Get(ctx, q, queueColumns, "queues", e.management.Vhost, name); err != nil {
		e.unseen(checkDurability, subject, err)
		return true
	}
	// The relay publishes persistent messages, which only a durable queue keeps. These are warnings, because another
	// queue of the same route may keep the message; if none does, the route itself has an error.
	e.Add(checkDurability, subject,
		finding.WarnIf(q.Exclusive, "it is exclusive: it is deleted with the connection that declared it",
			"declare one that is durable and not exclusive"),
		finding.WarnIf(!q.Durable, "it is not durable: what it holds is lost when the broker restarts",
			"declare it again as durable, best as a quorum queue"),
		finding.WarnIf(q.AutoDelete, "it is deleted with what it holds when its last consumer leaves (auto-delete)",
			"declare it again without auto-delete"),
		finding.OKIf(true, "it is durable"))
	expires, unused := q.option("expires")
	e.Add(checkDurability, subject, finding.WarnIf(unused,
		"it is deleted with what it holds when nobody has used it for "+milliseconds(expires),
		"take away expires from its arguments or policy"))
	e.replication(q, subject)
	e.limits(q, subject)
	return q.Durable && !q.Exclusive
}

// replication examines on how many nodes the queue's messages are. Members are known only of quorum queues and streams,
// and some seconds after the queue was created.
func (e *examination) replication(q *queueInfo, subject string) {
	const grow = "add members: rabbitmq-queues add_member, for a stream rabbitmq-streams add_replica"
	const quorum = "declare a quorum queue in its place (x-queue-type quorum)"
	members, online := len(q.Members), len(q.Online)
	some := fmt.Sprintf("of its %d members %d are there", members, online)
	if online < members {
		e.Add(inspect.Replication, subject,
			finding.WarnIf(2*online > members, some, "bring back the nodes that hold it"),
			finding.FailIf(true, some+": it takes no message, and its rows are held",
				"bring back the nodes that hold it"))
	}
	e.Add(inspect.Replication, subject,
		finding.WarnIf(q.Type == amqp091.QueueTypeClassic, "it is a classic queue, on one node: what it holds is lost "+
			"with that node's disk, and rows are held while the node is away", quorum),
		finding.OKIf(members == 0, "it is a "+q.Type+" queue"), // how many it has is not known yet
		finding.WarnIf(members == 1, fmt.Sprintf("it is a %s queue with one member: what it holds is lost with that "+
			"node's disk", q.Type), grow),
		finding.WarnIf(members == 2, fmt.Sprintf("it is a %s queue with 2 members: it takes no message while either "+
			"is away", q.Type), grow),
		finding.OKIf(true, fmt.Sprintf("it is a %s queue with %d members", q.Type, members)))
}

// limits examines what happens to messages when the queue is full, and when nobody consumes them. RabbitMQ confirms a
// message that it drops later, so only reject-publish keeps an acknowledged row from being lost. A stream keeps what
// was read, and drops messages by age and size by design.
func (e *examination) limits(q *queueInfo, subject string) {
	if q.Type == amqp091.QueueTypeStream {
		_, aged := q.option("max-age")
		_, limited := q.option("max-length-bytes")
		e.Add(inspect.Limits, subject, finding.WarnIf(!aged && !limited, "it has neither max-age nor "+
			"max-length-bytes: a stream keeps what was read, so it grows until the disk is full", "set one of them in "+
			"its arguments or by a policy"), finding.OKIf(true, "drops its oldest messages by age or size"))
		return
	}
	e.Add(inspect.Limits, subject, finding.WarnIf(q.Policy == nil,
		"its policies are not reported: it is some seconds old, or the management interface collects no statistics",
		"ask again, or see with rabbitmqctl list_queues name effective_policy_definition"))
	_, deadLetters := q.option("dead-letter-exchange")
	messages, counted := q.option("max-length")
	bytes, weighed := q.option("max-length-bytes")
	full := fmt.Sprintf("it is full with %v messages", messages)
	if !counted {
		full = fmt.Sprintf("it is full with %.0f bytes", bytes)
	}
	if overflow, _ := q.option("overflow"); counted || weighed {
		e.Add(inspect.Limits, subject,
			finding.OKIf(overflow == "reject-publish", full+", and takes no more then: rows wait"),
			finding.WarnIf(overflow == "reject-publish-dlx", full+", and then each try of a row puts the message into "+
				"the dead-letter exchange, and refuses it", "set overflow to reject-publish, which only holds rows"),
			finding.OKIf(deadLetters, full+", and then the oldest goes to the dead-letter exchange"),
			finding.WarnIf(true, full+", and then each new message drops the oldest one, confirmed or not, read or "+
				"not (overflow drop-head)", "set overflow to reject-publish, which holds rows instead, or raise the "+
				"limit"))
	}
	ttl, old := q.option("message-ttl")
	e.Add(inspect.Limits, subject, finding.WarnIf(old && !deadLetters, "messages that nobody has consumed for "+
		milliseconds(ttl)+" are thrown away (message-ttl)", "take away message-ttl from its arguments or policy, or "+
		"add a dead-letter-exchange"))
}

// milliseconds formats a number of milliseconds as a duration.
func milliseconds(value any) string {
	number, ok := value.(float64)
	if !ok {
		return fmt.Sprint(value)
	}
	return (time.Duration(number) * time.Millisecond).String()
}
