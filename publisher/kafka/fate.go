package kafka

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// partitionFate names one partition as the trouble, in the same way in each call, so that the relay recognises it: it
// holds whatever has the same fate with one hold, and lets one row try for all of it.
func partitionFate(topic string, index int32) publisher.Fate {
	return publisher.Fate{Kind: publisher.FatePartition, Name: topic + "/" + strconv.Itoa(int(index))}
}

// unavailable returns the answer for messages that this broker does not take now. Unless all brokers are away, others
// lead other partitions, and the trouble is this broker with all partitions that it leads. The cluster's mu is held.
func (b *broker) unavailable(short, format string, args ...any) error {
	if b.cluster.allAway() {
		return publisher.UnavailableError(publisher.ScopeDestination, short, format, args...)
	}
	return publisher.WithFate(publisher.UnavailableError(publisher.ScopeMessage, short, format, args...),
		publisher.Fate{Kind: publisher.FateBroker, Name: b.address})
}

// unavailable returns the answer for messages that this partition does not take now.
func (p *partition) unavailable(short, found string) error {
	err := publisher.UnavailableError(publisher.ScopeMessage, short, "topic %q partition %d: %s", p.topic, p.index,
		found)
	return publisher.WithFate(err, partitionFate(p.topic, p.index))
}

// answer returns the error for the messages of a batch. A record that was refused alone implies nothing about its
// partition.
func (j *job) answer(v verdict, err error) error {
	answer := &publisher.Error{Class: v.class, Scope: v.scope, Short: v.short, Err: err}
	if v.class == publisher.Unavailable && v.scope == publisher.ScopeMessage && v.action != divide {
		answer.Fate = partitionFate(j.partition.topic, j.partition.index)
	}
	return answer
}

// ambiguous returns the answer for messages that were sent without an answer, if the other messages of the job are
// answered with err. It is Unavailable if they were sent in an earlier call as well. It names the scope and fate of
// err. If err says only that the call has ended, it names the leader, provided that other brokers have answered since.
func (j *job) ambiguous(err error) error {
	if j.unanswered == nil {
		return err
	}
	answer := &publisher.Error{
		Class: publisher.Ambiguous, Short: "no answer",
		Err: fmt.Errorf("sent to topic %q partition %d without an answer: %w", j.partition.topic, j.partition.index,
			j.unanswered),
	}
	if j.partition.batch.kept {
		// The broker recognises it. Messages with repeatedly unknown outcomes would become suspect themselves.
		answer.Class = publisher.Unavailable
	}
	if e, ok := errors.AsType[*publisher.Error](err); ok && e.Class != publisher.NotAttempted {
		answer.Scope, answer.Fate = e.Scope, e.Fate
	}
	c := j.leader.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer.Scope == publisher.ScopeDestination && c.othersAnswer(j.leader, j.call.now) {
		answer.Scope = publisher.ScopeMessage
		answer.Fate = publisher.Fate{Kind: publisher.FateBroker, Name: j.leader.address}
	}
	return answer
}
