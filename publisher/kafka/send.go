package kafka

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

const (
	// maxReplication is how long a broker waits for the replicas before it answers REQUEST_TIMED_OUT
	// for a partition, which holds back the answers for all partitions of the request.
	maxReplication = 5 * time.Second
	// againReplication is how long for batches that were sent before, whose replicas have had that time and more.
	againReplication = 100 * time.Millisecond
	// againPause is how long such a batch is left alone when its replicas have not followed yet.
	againPause = time.Second
	// answerSlack is how much longer an answer is waited for.
	answerSlack = 5 * time.Second
)

// send does the jobs of a wave. A job whose partition is in use by another call waits for its turn,
// and while it waits holds no other turn.
func (c *call) send(ctx context.Context, jobs []*job) {
	defer c.dismiss()
	jobs = c.withoutSilent(jobs)
	var answered <-chan time.Time // when to return with the answers that are there
	for len(jobs) > 0 {
		taken := tryTurns(jobs)
		if taken == 0 {
			if taken = c.awaitTurn(ctx, jobs, answered); taken == 0 {
				return
			}
		}
		c.drive(ctx, jobs[:taken])
		if jobs = jobs[taken:]; answered == nil && len(jobs) > 0 {
			answered = time.After(patience)
		}
	}
}

// awaitTurn waits until a job has its turn, puts it first and returns how many have. If none gets it in time
// all are answered.
func (c *call) awaitTurn(ctx context.Context, jobs []*job, answered <-chan time.Time) (taken int) {
	tick := time.NewTicker(turnTick)
	defer tick.Stop()
	for {
		select {
		case <-jobs[0].partition.turn:
			return 1 + tryTurns(jobs[1:])
		case <-tick.C:
			if taken = tryTurns(jobs); taken > 0 {
				return taken
			}
			continue
		case <-answered:
			for _, j := range jobs {
				c.refuseAll(j, j.leader.unavailable(false, "partition busy",
					"topic %q partition %d: an earlier call still waits for its leader's answer", j.partition.topic, j.partition.index))
			}
		case <-ctx.Done():
			c.abandon(jobs)
		case <-c.publisher.open.done:
			c.abandon(jobs)
		}
		return 0
	}
}

// tryTurns takes the turns that are free, puts their jobs first and returns how many they are.
func tryTurns(jobs []*job) (taken int) {
	for i, j := range jobs {
		if j.partition.try() {
			jobs[taken], jobs[i] = j, jobs[taken]
			taken++
		}
	}
	return taken
}

// abandon answers for jobs that never got their turn.
func (c *call) abandon(jobs []*job) {
	for _, j := range jobs {
		c.refuseAll(j, c.ended())
	}
}

// ended is the answer for messages that were not sent before ctx or the publisher ended.
func (c *call) ended() error {
	if c.publisher.open.closed() {
		return publisher.ErrClosed
	}
	return publisher.ErrNotAttempted
}

// drive sends what the jobs have, to all leaders at once, until each job is done and has given back
// its turn. Jobs whose leader has moved go round again.
func (c *call) drive(ctx context.Context, jobs []*job) {
	for len(jobs) > 0 {
		slices.SortFunc(jobs, func(a, b *job) int {
			return 4*strings.Compare(a.leader.address, b.leader.address) + 2*strings.Compare(a.partition.topic, b.partition.topic) +
				int(min(max(a.partition.index-b.partition.index, -1), 1))
		})
		var wait sync.WaitGroup
		r := &round{answers: (*broker).othersAnswer, running: 1, late: map[*broker]context.CancelFunc{}}
		for i := range jobs[1:] {
			if jobs[i].leader != jobs[i+1].leader {
				r.running++
			}
		}
		for rest := jobs; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].leader == rest[0].leader {
				n++
			}
			same := rest[:n]
			if rest = rest[n:]; len(rest) > 0 {
				wait.Go(func() { c.lead(ctx, r, same) })
			} else {
				c.lead(ctx, r, same)
			}
		}
		wait.Wait()
		jobs = slices.DeleteFunc(jobs, func(j *job) bool { return j.done })
		c.relocate(ctx, jobs)
		jobs = slices.DeleteFunc(jobs, func(j *job) bool { return j.done })
	}
}

// relocate learns the leaders of jobs that need it. A job that has none is over.
func (c *call) relocate(ctx context.Context, jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	names := make([]string, 0, len(jobs))
	for _, j := range jobs {
		names = append(names, j.partition.topic)
	}
	slices.Sort(names)
	refused, err := c.publisher.cluster.refresh(ctx, slices.Compact(names))
	for _, j := range jobs {
		j.moved = false
		name, index := j.partition.topic, int(j.partition.index)
		known, _ := c.publisher.cluster.cached(name, c.now)
		switch {
		case ctx.Err() != nil || c.publisher.open.closed():
			j.fail(c.ended())
		case err != nil:
			j.fail(unavailable(err))
		case refused[name] != nil:
			j.gone(refused[name])
		case known == nil || index >= len(known.leaders) || known.leaders[index] == nil:
			j.fail(j.partition.unavailable("no leader", "it has no leader"))
		default:
			j.leader = known.leaders[index]
			if err := c.mayAsk(j.leader); err != nil {
				j.fail(err)
			}
		}
	}
}

// lead sends the jobs' batches to their common leader, request after request, until each job is done
// or has moved.
func (c *call) lead(ctx context.Context, r *round, jobs []*job) {
	defer r.finished()
	leader := jobs[0].leader
	sending := make([]*job, 0, len(jobs))
	for {
		sending = sending[:0]
		size := 0
		// Batches that were sent before go by themselves: one whose replicas do not follow delays all answers to its request.
		resent := slices.ContainsFunc(jobs, (*job).resends)
		for _, j := range jobs {
			if j.moved || size > maxRequestBytes || !j.prepare() || j.resends() != resent {
				continue
			}
			size += len(j.partition.batch.bytes)
			sending = append(sending, j)
		}
		if len(sending) == 0 {
			if resent {
				continue // they are to be sent no more
			}
			return
		}
		c.request(ctx, r, leader, sending, size)
	}
}

// request sends one produce request with a batch of each job, so many bytes, and applies the answers.
func (c *call) request(ctx context.Context, r *round, leader *broker, jobs []*job, size int) {
	if err := c.await(ctx, leader); err != nil {
		for _, j := range jobs {
			j.fail(err)
		}
		return
	}
	connection, _, err := leader.take(ctx, false)
	if err != nil {
		for _, j := range jobs {
			c.unsent(ctx, j, err)
		}
		return
	}
	if ctx.Err() != nil {
		leader.give(connection, true)
		for _, j := range jobs {
			j.fail(c.ended())
		}
		return
	}
	replication := max(within(ctx, maxReplication), time.Millisecond)
	timeout := replication + answerSlack
	if jobs[0].partition.batch.kept {
		replication = min(replication, againReplication)
	}
	wait, before := leader.bound(ctx, size)
	if before && !c.publisher.cluster.unreachable() {
		timeout = wait
	}
	if c.producer == noProducer {
		wait = timeout // what is given up would be in the log twice
	}
	asked := time.Now()
	for _, j := range jobs {
		if j.asked.IsZero() {
			j.asked = asked
		}
	}
	waiting, done := r.request(ctx, leader, wait)
	m, err := connection.roundTrip(waiting, newRequest(jobs, replication), timeout)
	done(err == nil)
	if err != nil {
		leader.give(connection, false)
		leader.reset(asked)
		silent := network.TimedOut(err) && time.Since(asked) >= max(wait, patience/4) // with less time every broker is
		if silent {
			leader.unanswered(asked)
		}
		for _, j := range jobs {
			if silent {
				c.givenUp(ctx, j, before, err)
			} else {
				c.lost(ctx, j, err)
			}
		}
		return
	}
	leader.answers()
	response := m.(*produce.Response)
	leader.throttle(connection, time.Duration(response.ThrottleTimeMs)*time.Millisecond)
	leader.give(connection, true)
	for _, j := range jobs {
		if answer := answerFor(response, j.partition); answer != nil {
			j.answered(kafkago.Error(answer.ErrorCode), answer.ErrorMessage)
		} else {
			j.lost(errors.New("the broker left the partition out of its answer"))
		}
	}
}

// await waits out a short pause that the broker has asked for.
func (c *call) await(ctx context.Context, leader *broker) error {
	pause := leader.pause()
	if pause == 0 {
		return nil
	}
	if pause > within(ctx, maxThrottle) {
		return leader.unavailable(false, "throttled", "broker %s asks for a pause of %s: the client's quota is used up", leader.address,
			pause.Round(time.Millisecond))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
	case <-c.publisher.open.done:
	}
	return c.ended()
}

// unsent answers for a job whose leader could not be reached.
func (c *call) unsent(ctx context.Context, j *job, err error) {
	if ctx.Err() != nil || c.publisher.open.closed() {
		j.fail(c.ended())
		return
	}
	j.unsent(j.leader.unavailable(c.publisher.cluster.unreachable(), shortOf(err), "%w", err))
}

// lost answers for a job whose batch was sent without an answer.
func (c *call) lost(ctx context.Context, j *job, err error) {
	if over(ctx) || c.publisher.open.closed() {
		j.partition.batch.unsure, j.partition.batch.unheard, j.unanswered = true, false, err
		j.fail(c.ended())
		return
	}
	j.lost(err)
}

// givenUp answers for a job whose leader did not answer in time. It is sent nothing more in this call. Had the leader
// been silent before, that is known to be its fault: messages whose outcome is unknown again and again would be
// suspected themselves.
func (c *call) givenUp(ctx context.Context, j *job, before bool, err error) {
	j.partition.batch.unsure, j.partition.batch.unheard, j.unanswered = true, false, err
	if ctx.Err() != nil || c.publisher.open.closed() {
		j.fail(c.ended())
		return
	}
	if before {
		j.unanswered = nil
	}
	j.fail(silent(j.leader, c.publisher.cluster.unreachable()))
}

// newRequest makes a request of the jobs' batches. The jobs are sorted by topic.
func newRequest(jobs []*job, replication time.Duration) protocol.Message {
	request := &rawproduce.Request{Acks: -1, Timeout: int32(replication.Milliseconds())}
	partitions := make([]rawproduce.RequestPartition, len(jobs))
	readers := make([]bytes.Reader, len(jobs))
	for i, j := range jobs {
		readers[i].Reset(j.partition.batch.bytes)
		partitions[i] = rawproduce.RequestPartition{Partition: j.partition.index, RecordSet: protocol.RawRecordSet{Reader: &readers[i]}}
		if i == 0 || jobs[i-1].partition.topic != j.partition.topic {
			request.Topics = append(request.Topics, rawproduce.RequestTopic{Topic: j.partition.topic, Partitions: partitions[i:i]})
		}
		last := &request.Topics[len(request.Topics)-1]
		last.Partitions = last.Partitions[:len(last.Partitions)+1]
	}
	return request
}

// answerFor finds the partition's answer.
func answerFor(response *produce.Response, p *partition) *produce.ResponsePartition {
	for t := range response.Topics {
		if response.Topics[t].Topic != p.topic {
			continue
		}
		for i := range response.Topics[t].Partitions {
			if answer := &response.Topics[t].Partitions[i]; answer.Partition == p.index {
				return answer
			}
		}
	}
	return nil
}
