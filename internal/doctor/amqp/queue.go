package amqp

import (
	"fmt"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
)

// A queueInfo is what the management interface reports about a queue.
type queueInfo struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Exclusive  bool
	State      string
	Arguments  rabbitmq.Options
	// Policy is the combination of all policies, nil if it is unknown: it comes with the statistics, some seconds after the
	// queue was created.
	Policy  *rabbitmq.Options `json:"effective_policy_definition"`
	Members []string          // members of a quorum queue or stream, including those that are down
	Online  []string
}

const queueColumns = "name,type,durable,auto_delete,exclusive,state,arguments,effective_policy_definition,members,online"

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

// lasts reports whether the queue and its messages survive a restart of the broker.
func (q *queueInfo) lasts() bool { return q.Durable && !q.Exclusive }

// rejects reports whether the queue rejects messages when it is full.
func (q *queueInfo) rejects() bool {
	_, messages := q.option("max-length")
	_, bytes := q.option("max-length-bytes")
	overflow, _ := q.option("overflow")
	return (messages || bytes) && (overflow == "reject-publish" || overflow == "reject-publish-dlx")
}

// describe reports what an acknowledgement by this queue guarantees.
func (e *examination) describe(q *queueInfo) {
	subject := fmt.Sprintf("queue %.100q", q.Name)
	e.durability(q, subject)
	e.replication(q, subject)
	if q.Type == amqp091.QueueTypeStream { // a stream keeps what was read, and drops messages by age and size by design
		e.stream(q, subject)
	} else {
		e.limits(q, subject)
	}
}

// stream reports whether a stream ever removes messages.
func (e *examination) stream(q *queueInfo, subject string) {
	age, aged := q.option("max-age")
	bytes, limited := q.option("max-length-bytes")
	switch {
	case limited:
		e.Well(checkLimits, subject, fmt.Sprintf("drops its oldest messages when it holds %.0f bytes", bytes))
	case aged:
		e.Well(checkLimits, subject, fmt.Sprintf("drops messages that are older than %v", age))
	default:
		e.Warn(checkLimits, subject, "it has neither max-age nor max-length-bytes: a stream keeps what was read, so it grows until the "+
			"disk is full",
			"set one of them in its arguments or by a policy")
	}
}

func (e *examination) durability(q *queueInfo, subject string) {
	warn := func(found, remedy string) { e.Warn(checkDurability, subject, found, remedy) }
	switch {
	case q.Exclusive:
		warn("it is exclusive: it is deleted with the connection that declared it", "declare one that is durable and not exclusive")
	case !q.Durable:
		warn("it is not durable: what it holds is lost when the broker restarts", "declare it again as durable, best as a quorum queue")
	case q.AutoDelete:
		warn("it is deleted with what it holds when its last consumer leaves (auto-delete)", "declare it again without auto-delete")
	default:
		e.Well(checkDurability, subject, "it is durable")
	}
	if expires, ok := q.option("expires"); ok {
		warn("it is deleted with what it holds when nobody has used it for "+milliseconds(expires),
			"take away expires from its arguments or policy")
	}
}

func (e *examination) replication(q *queueInfo, subject string) {
	warn := func(found, remedy string) { e.Warn(checkReplication, subject, found, remedy) }
	const grow = "add members: rabbitmq-queues add_member, for a stream rabbitmq-streams add_replica"
	members, online := len(q.Members), len(q.Online)
	_, mirrored := q.option("ha-mode")
	switch {
	case q.Type == amqp091.QueueTypeClassic && mirrored:
		warn("it is a classic queue with mirrors, which RabbitMQ 4 no longer has", "declare a quorum queue in its place (x-queue-type quorum)")
		return
	case q.Type == amqp091.QueueTypeClassic:
		warn("it is a classic queue, on one node: what it holds is lost with that node's disk, and rows are held while the node is away",
			"declare a quorum queue in its place (x-queue-type quorum)")
		return
	case q.Type != amqp091.QueueTypeQuorum && q.Type != amqp091.QueueTypeStream:
		warn(fmt.Sprintf("it is of type %.100q, which the relay is not tested with", q.Type), "declare a quorum queue (x-queue-type quorum)")
		return
	case members == 0: // not known yet
		e.Well(checkReplication, subject, "it is a "+q.Type+" queue")
		return
	case 2*online <= members:
		e.Fail(checkReplication, subject, fmt.Sprintf("of its %d members %d are there: it takes no message, and its rows are held", members,
			online), "bring back the nodes that hold it")
		return
	case online < members:
		warn(fmt.Sprintf("of its %d members %d are there", members, online), "bring back the nodes that hold it")
	}
	found := fmt.Sprintf("it is a %s queue with %d members", q.Type, members)
	switch members {
	case 1:
		warn(fmt.Sprintf("it is a %s queue with one member: what it holds is lost with that node's disk", q.Type), grow)
	case 2:
		warn(found+": it takes no message while either is away", grow)
	default:
		e.Well(checkReplication, subject, found)
	}
}

func (e *examination) limits(q *queueInfo, subject string) {
	warn := func(found, remedy string) { e.Warn(checkLimits, subject, found, remedy) }
	if q.Policy == nil {
		warn("its policies are not reported: it is some seconds old, or the management interface collects no statistics",
			"ask again, or see with rabbitmqctl list_queues name effective_policy_definition")
	}
	_, deadLetters := q.option("dead-letter-exchange")
	full := ""
	if limit, ok := q.option("max-length"); ok {
		full = fmt.Sprintf("it is full with %v messages", limit)
	} else if limit, ok := q.option("max-length-bytes"); ok {
		full = fmt.Sprintf("it is full with %.0f bytes", limit)
	}
	switch overflow, _ := q.option("overflow"); {
	case full == "":
	case overflow == "reject-publish":
		e.Well(checkLimits, subject, full+", and takes no more then: rows wait")
	case overflow == "reject-publish-dlx":
		warn(full+", and then each try of a row puts the message into the dead-letter exchange, and refuses it",
			"set overflow to reject-publish, which only holds rows")
	case deadLetters:
		e.Well(checkLimits, subject, full+", and then the oldest goes to the dead-letter exchange")
	default:
		warn(full+", and then each new message drops the oldest one, confirmed or not, read or not (overflow drop-head)",
			"set overflow to reject-publish, which holds rows instead, or raise the limit")
	}
	if ttl, ok := q.option("message-ttl"); ok {
		if deadLetters {
			e.Well(checkLimits, subject, "messages that nobody has consumed for "+milliseconds(ttl)+" go to the dead-letter exchange")
		} else {
			warn("messages that nobody has consumed for "+milliseconds(ttl)+" are thrown away (message-ttl)",
				"take away message-ttl from its arguments or policy, or add a dead-letter-exchange")
		}
	}
}

// milliseconds formats a number of milliseconds as a duration.
func milliseconds(value any) string {
	number, ok := value.(float64)
	if !ok {
		return fmt.Sprint(value)
	}
	return (time.Duration(number) * time.Millisecond).String()
}
