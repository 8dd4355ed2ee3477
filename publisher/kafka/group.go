package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// A group holds jobs that have their turn and the same leader. They are sent together, request after request, until
// each job is done or has moved.
type group struct {
	leader  *broker
	jobs    []*job
	request request
	sending []*job // jobs whose batches are in the request
}

// start sends the batches of jobs that have their turn.
func (c *call) start(ctx context.Context, jobs []*job) {
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(strings.Compare(a.leader.address, b.leader.address), strings.Compare(a.partition.topic, b.partition.topic),
			cmp.Compare(a.partition.index, b.partition.index))
	})
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].leader == jobs[0].leader {
			n++
		}
		g := &group{leader: jobs[0].leader, jobs: jobs[:n:n]}
		jobs = jobs[n:]
		c.advance(ctx, g)
	}
}

// advance sends the next request of a group. If there is none, the jobs of the group are done or go to other leaders.
func (c *call) advance(ctx context.Context, g *group) {
	size := 0
	for again := true; again; {
		if ctx.Err() != nil || c.publisher.life.ended() {
			g.each(func(j *job) { j.fail(c.ended()) })
			return
		}
		// Batches that were sent before go in a request of their own. A batch whose replicas do not follow delays all
		// answers to its request.
		resent := slices.ContainsFunc(g.jobs, (*job).resends)
		g.sending, size = g.sending[:0], 0
		for _, j := range g.jobs {
			if j.moved || size > maxRequestBytes || !j.prepare() || j.resends() != resent {
				continue
			}
			size += len(j.partition.batch.bytes)
			g.sending = append(g.sending, j)
		}
		again = resent && len(g.sending) == 0 // none of them may be sent any more
	}
	if len(g.sending) == 0 {
		c.relocate(ctx, slices.DeleteFunc(g.jobs, func(j *job) bool { return j.done }))
		return
	}
	replication := max(within(ctx, maxReplication), time.Millisecond)
	limit := replication + answerSlack
	patient := c.producer == noProducer
	if patient && !c.deadline.IsZero() {
		limit = max(limit, time.Until(c.deadline))
	}
	if g.sending[0].partition.batch.kept {
		replication = min(replication, againReplication)
	}
	g.request = request{
		message: newRequest(g.sending, replication), back: c.back, group: g, size: size, since: c.now, deadline: c.deadline,
		limit: limit, patient: patient,
	}
	c.underway = append(c.underway, g)
	g.leader.post(&g.request)
}

// each calls a function for the jobs that are not done.
func (g *group) each(do func(*job)) {
	for _, j := range g.jobs {
		if !j.done {
			do(j)
		}
	}
}

// take handles a request that has come back.
func (c *call) take(ctx context.Context, r *request) {
	g := r.group
	c.underway = slices.DeleteFunc(c.underway, func(other *group) bool { return other == g })
	c.returned = true
	for _, j := range g.sending {
		switch r.ending {
		case replied:
			if answer := answerFor(r.response.(*produce.Response), j.partition); answer != nil {
				j.answered(kafkago.Error(answer.ErrorCode), answer.ErrorMessage)
			} else {
				j.lost(errors.New("the broker left the partition out of its answer"))
			}
		case unreached:
			c.unsent(ctx, j, r.err)
		case refused:
			j.fail(r.err)
			c.doubt(j)
		case withdrawn:
			j.fail(c.ended())
		case lost:
			c.lost(ctx, j, r.err)
		case unheard:
			c.givenUp(ctx, j, r.suspected, r.err)
		}
	}
	c.advance(ctx, g)
}

// relocate finds the current leaders of the given jobs. A job without a leader is done.
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
		case ctx.Err() != nil || c.publisher.life.ended():
			j.fail(c.ended())
		case err != nil:
			j.fail(unavailable(err))
		case refused[name] != nil:
			j.gone(refused[name])
		case known == nil || index >= len(known.leaders) || known.leaders[index] == nil:
			j.fail(j.partition.unavailable("no leader", "it has no leader"))
		default:
			j.leader = known.leaders[index]
		}
	}
	c.start(ctx, slices.DeleteFunc(jobs, func(j *job) bool { return j.done }))
}

// unsent handles a job whose leader could not be reached.
func (c *call) unsent(ctx context.Context, j *job, err error) {
	if ctx.Err() != nil || c.publisher.life.ended() {
		j.fail(c.ended())
		return
	}
	j.unsent(j.leader.unavailable(c.publisher.cluster.unreachable(), shortOf(err), "%w", err))
}

// lost handles a job whose batch was sent without an answer.
func (c *call) lost(ctx context.Context, j *job, err error) {
	if over(ctx) || c.publisher.life.ended() {
		j.partition.batch.unsure, j.partition.batch.unheard, j.unanswered = true, false, err
		j.fail(c.ended())
		return
	}
	j.lost(err)
}

// givenUp handles a job whose leader did not answer in time. Nothing more is sent for the job in this call. If the
// leader was a suspect before, the silence is known to be its fault: messages with repeatedly unknown outcomes would
// become suspect themselves.
func (c *call) givenUp(ctx context.Context, j *job, before bool, err error) {
	j.partition.batch.unsure, j.partition.batch.unheard, j.unanswered = true, false, err
	if ctx.Err() != nil || c.publisher.life.ended() {
		j.fail(c.ended())
		return
	}
	if before {
		j.unanswered = nil
	}
	j.fail(j.leader.quiet(c.publisher.cluster.unreachable()))
}

// doubt makes the next call ask the cluster for the leader of the job's partition, if the current leader is a suspect.
func (c *call) doubt(j *job) {
	if j.leader.standing().silences == 0 {
		return // the broker requests a pause
	}
	if known, _ := c.publisher.cluster.cached(j.partition.topic, c.now); known != nil {
		c.publisher.cluster.doubt(known, movingTTL, c.now)
	}
}

// newRequest builds a request from the jobs' batches. The jobs are sorted by topic.
func newRequest(jobs []*job, replication time.Duration) protocol.Message {
	request := &rawproduce.Request{Acks: -1, Timeout: int32(replication.Milliseconds())}
	partitions := make([]rawproduce.RequestPartition, len(jobs))
	readers := make([]bytes.Reader, len(jobs))
	for i, j := range jobs {
		readers[i].Reset(j.partition.batch.bytes)
		partitions[i] = rawproduce.RequestPartition{
			Partition: j.partition.index,
			RecordSet: protocol.RawRecordSet{Reader: &readers[i]},
		}
		if i == 0 || jobs[i-1].partition.topic != j.partition.topic {
			request.Topics = append(request.Topics, rawproduce.RequestTopic{
				Topic:      j.partition.topic,
				Partitions: partitions[i:i],
			})
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
