package kafka

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// maxReplication is how long a broker waits for the replicas before it answers REQUEST_TIMED_OUT for a partition.
	// The wait holds back the answers for all partitions of the request. A replica that has stopped leaves the in-sync
	// set after replica.lag.time.max.ms, 30 seconds by default; the wait is shorter, because it costs nothing to send
	// the same batch again.
	maxReplication = 5 * time.Second
	// againReplication is the limit for batches that were sent before. Their replicas have had at least maxReplication
	// already.
	againReplication = 100 * time.Millisecond
	// answerSlack is how much longer the publisher waits for an answer. A request that is given up makes no copy, but
	// its rows wait for the next call. This limit counts only while no other broker answers: beside one that does,
	// patience is the limit (see broker.allow).
	answerSlack = 5 * time.Second
)

// send performs the jobs of a wave, in requests with the batches of many partitions. A job whose partition is in use by
// another call waits for its turn while the others go on. The call handles events as they come: jobs that wait no
// longer, and requests that have come back. When ctx ends, both notice that themselves.
//
// A job waits for one thing at a time, so the channel has room for all events, and no goroutine blocks on a call that
// is not reading.
func (c *call) send(ctx context.Context) {
	c.events, c.underway = make(chan func(), len(c.jobs)), c.underway[:0]
	defer c.abandon()
	for _, j := range c.jobs {
		c.admit(ctx, j)
	}
	for c.round(ctx); c.pending > 0; c.round(ctx) {
		c.handle()
	}
}

func (c *call) handle() {
	c.pending--
	(<-c.events)()
}

// abandon gives back the turns of partitions, after a panic. Without this, nobody could send to them any more.
func (c *call) abandon() {
	for c.pending > 0 {
		c.handle()
	}
	for _, j := range c.jobs {
		if j.state != finished {
			j.fail(publisher.ErrNotAttempted)
		}
	}
}

// begin runs f in a goroutine, and then what follows from it in that of the call. If the publisher is being closed, f
// is left out.
func (c *call) begin(f, then func()) {
	c.pending++
	if !c.publisher.life.Start(func() { f(); c.events <- then }) {
		c.events <- then
	}
}

// admit takes the turn of a job's partition, or makes the job wait for it until ctx ends. If nothing would be sent to
// its leader, the job is answered at once. An answer at once also keeps a suspect's partitions from collecting a queue
// of calls that each wait for the one that may ask it.
//
// The goroutine that waits touches nothing of the call.
func (c *call) admit(ctx context.Context, j *job) {
	cluster := c.publisher.cluster
	cluster.mu.Lock()
	err := j.leader.refusal(ctx, time.Now())
	cluster.mu.Unlock()
	if err != nil {
		j.fail(err)
		return
	}
	select {
	case j.partition.turn <- struct{}{}:
		j.state = ready
		return
	default:
	}
	got := false
	c.begin(func() {
		select {
		case j.partition.turn <- struct{}{}:
			got = true
		case <-ctx.Done():
		}
	}, func() {
		if !got {
			j.fail(c.ended())
			return
		}
		j.state = ready
	})
}

// round sends the batches of the jobs that are ready, those of a leader together. After a full request, the next one to
// the same leader waits until it has come back: the batches of a call may be as large as all its messages. Jobs that
// have moved go to their new leaders first.
//
// The jobs are sorted by leader, to form requests, and then by topic and partition, which newProduce relies on.
func (c *call) round(ctx context.Context) {
	if slices.ContainsFunc(c.jobs, func(j *job) bool { return j.state == moved }) {
		c.relocate(ctx)
	}
	var jobs []*job
	for _, j := range c.jobs {
		full := func(r *request) bool { return r.size > maxRequestBytes && r.jobs[0].leader == j.leader }
		if j.state == ready && ctx.Err() != nil {
			j.fail(c.ended())
		} else if j.state == ready && !slices.ContainsFunc(c.underway, full) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(strings.Compare(a.leader.address, b.leader.address),
			strings.Compare(a.partition.topic, b.partition.topic), cmp.Compare(a.partition.index, b.partition.index))
	})
	for len(jobs) > 0 {
		n := 1
		for n < len(jobs) && jobs[n].leader == jobs[0].leader {
			n++
		}
		// Batches that were sent before go in a request of their own. A batch whose replicas do not follow delays all
		// answers to its request.
		c.post(ctx, jobs[:n], true)
		c.post(ctx, jobs[:n], false)
		jobs = jobs[n:]
	}
}

// post sends a request with the batches of jobs that have the same leader: either those that an earlier call has sent,
// or new ones, as far as they fit. The time for the replicas is at most half of what the call has left, so that the
// broker's own answer comes before the call ends: REQUEST_TIMED_OUT names the partition that lags, and a call that
// simply ends names nothing.
func (c *call) post(ctx context.Context, jobs []*job, resent bool) {
	r := &request{since: c.now, final: true, err: publisher.ErrClosed} // unless it is sent
	for _, j := range jobs {
		if j.state != ready || r.size > maxRequestBytes || resent && !j.resends() {
			continue
		}
		if !j.prepare() || j.resends() != resent {
			continue
		}
		j.state = sending
		r.jobs = append(r.jobs, j)
		r.size += len(j.partition.batch.bytes)
	}
	if len(r.jobs) == 0 {
		return
	}
	replication := max(within(ctx, maxReplication), time.Millisecond)
	r.limit = replication + answerSlack
	if resent {
		replication = min(replication, againReplication)
	}
	r.message = newProduce(r.jobs, replication)
	c.underway = append(c.underway, r)
	leader := jobs[0].leader
	c.begin(func() { leader.send(ctx, r) }, func() { c.take(ctx, r) })
}

// take handles a request that has come back. The answers are separate for each partition: one that is refused says
// nothing about the others. A partition that the broker has left out is treated like a lost answer: its batch may be in
// the log.
func (c *call) take(ctx context.Context, r *request) {
	c.underway = slices.DeleteFunc(c.underway, func(other *request) bool { return other == r })
	for _, j := range r.jobs {
		j.state = ready
		if answer := answerFor(r.response, j.partition); answer != nil {
			j.answered(kafkago.Error(answer.ErrorCode), answer.ErrorMessage)
			continue
		} else if r.response != nil {
			r.err = j.partition.unavailable("no answer", "the broker left the partition out of its answer")
		}
		j.missed(ctx, r)
	}
}

// relocate finds the current leaders of the jobs that have moved. A job without a leader is finished. Asking takes some
// milliseconds, for which the events of the call wait.
func (c *call) relocate(ctx context.Context) {
	var names []string
	for _, j := range c.jobs {
		if j.state == moved && !slices.Contains(names, j.partition.topic) {
			names = append(names, j.partition.topic)
		}
	}
	learned := c.publisher.cluster.refresh(ctx, names)
	for _, j := range c.jobs {
		if j.state != moved {
			continue
		}
		j.state = ready
		leader, err := learned[j.partition.topic].leader(j.partition)
		switch {
		case ctx.Err() != nil:
			j.fail(c.ended())
		case err == nil:
			j.leader = leader
		default:
			if j.partition.batch != nil && j.partition.dead.Load() {
				j.drop() // it went with the topic
			}
			j.fail(err)
		}
	}
}

// ended returns the answer for messages that were not sent before the call or the publisher ended.
func (c *call) ended() error {
	if c.publisher.life.Over() {
		return publisher.ErrClosed
	}
	return publisher.ErrNotAttempted
}
