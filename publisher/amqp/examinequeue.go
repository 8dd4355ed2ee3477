package amqp

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A queueInfo is what the management interface reports about a queue.
type queueInfo struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Exclusive  bool
	Arguments  any
	// Policy is the combination of all policies, nil if it is unknown: it comes with the statistics, some seconds
	// after the queue was created.
	Policy  any      `json:"effective_policy_definition"`
	Members []string // members of a quorum queue or stream, including those that are down
	Online  []string
}

const queueColumns = "name,type,durable,auto_delete,exclusive,arguments,effective_policy_definition,members,online"

// option returns an option from the queue's arguments or, failing that, from its policies; nil if there is none.
func (q *queueInfo) option(name string) any {
	return cmp.Or(table(q.Arguments)["x-"+name], table(q.Policy)[name])
}

// table returns a table of arguments, or the definition of a policy. The API may also write an empty one as a list.
func table(value any) map[string]any {
	all, _ := value.(map[string]any)
	return all
}

// queue reports what an acknowledgement by a queue guarantees, and whether the queue and its messages survive a restart
// of the broker.
func (e *examination) queue(ctx context.Context, name string) (lasts bool, err error) {
	subject := fmt.Sprintf("queue %.100q", name)
	q := &queueInfo{}
	if err := e.management.get(ctx, q, queueColumns, "queues", e.conn.uri.Vhost, name); err != nil {
		return false, err
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
	expires := q.option("expires")
	e.Add(checkDurability, subject, finding.WarnIf(expires != nil,
		"it is deleted with what it holds when nobody has used it for "+milliseconds(expires),
		"take away expires from its arguments or policy"))
	e.replication(q, subject)
	e.limits(q, subject)
	return q.Durable && !q.Exclusive, nil
}

// replication examines on how many nodes the queue's messages are. Members are known only of quorum queues and streams,
// and some seconds after the queue was created.
func (e *examination) replication(q *queueInfo, subject string) {
	const (
		grow   = "add members: rabbitmq-queues add_member, for a stream rabbitmq-streams add_replica"
		quorum = "declare a quorum queue in its place (x-queue-type quorum)"
		mend   = "bring back the nodes that hold it"
	)
	members, online := len(q.Members), len(q.Online)
	some, kind := fmt.Sprintf("of its %d members %d are there", members, online), "it is a "+q.Type+" queue"
	e.Add(inspect.Replication, subject,
		finding.WarnIf(online < members && 2*online > members, some, mend),
		finding.FailIf(online < members, some+": it takes no message, and its rows are held", mend))
	e.Add(inspect.Replication, subject,
		finding.WarnIf(q.Type == amqp091.QueueTypeClassic, kind+", on one node: what it holds is lost with that "+
			"node's disk, and rows are held while the node is away", quorum),
		finding.OKIf(members == 0, kind), // how many it has is not known yet
		finding.WarnIf(members == 1, kind+" with one member: what it holds is lost with that node's disk", grow),
		finding.WarnIf(members == 2, kind+" with 2 members: it takes no message while either is away", grow),
		finding.OKIf(true, fmt.Sprintf("%s with %d members", kind, members)))
}

// limits examines what happens to messages when the queue is full, and when nobody consumes them. RabbitMQ confirms a
// message that it drops later, so only reject-publish keeps an acknowledged row from being lost. A stream keeps what
// was read, and drops messages by age and size by design.
func (e *examination) limits(q *queueInfo, subject string) {
	messages, bytes, overflow := q.option("max-length"), q.option("max-length-bytes"), q.option("overflow")
	ttl, deadLetters := q.option("message-ttl"), q.option("dead-letter-exchange") != nil
	if q.Type == amqp091.QueueTypeStream {
		e.Add(inspect.Limits, subject,
			finding.WarnIf(q.option("max-age") == nil && bytes == nil, "it has neither max-age nor max-length-bytes: "+
				"a stream grows until the disk is full", "set one of them in its arguments or by a policy"),
			finding.OKIf(true, "drops its oldest messages by age or size"))
		return
	}
	full := fmt.Sprintf("it is full with %v messages", messages)
	if messages == nil {
		full = fmt.Sprintf("it is full with %.0f bytes", bytes)
	}
	e.Add(inspect.Limits, subject, finding.WarnIf(q.Policy == nil, "its policies are not reported: it is some seconds "+
		"old, or statistics are off", "ask again, or see rabbitmqctl list_queues name effective_policy_definition"))
	if messages != nil || bytes != nil {
		e.Add(inspect.Limits, subject,
			finding.OKIf(overflow == "reject-publish", full+", and takes no more then: rows wait"),
			finding.WarnIf(overflow == "reject-publish-dlx", full+", and then each try of a row puts a copy into the "+
				"dead-letter exchange", "set overflow to reject-publish, which only holds rows"),
			finding.OKIf(deadLetters, full+", and then the oldest goes to the dead-letter exchange"),
			finding.WarnIf(true, full+", and then each new message drops the oldest one, confirmed or not, read or "+
				"not (overflow drop-head)", "set overflow to reject-publish, which holds rows, or raise the limit"))
	}
	e.Add(inspect.Limits, subject, finding.WarnIf(ttl != nil && !deadLetters, "messages that nobody has consumed for "+
		milliseconds(ttl)+" are thrown away (message-ttl)", "take away message-ttl, or add a dead-letter-exchange"))
}

// milliseconds formats a number of milliseconds as a duration.
func milliseconds(value any) string {
	number, _ := value.(float64)
	return (time.Duration(number) * time.Millisecond).String()
}
