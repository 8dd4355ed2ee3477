package kafka

import (
	"context"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// maxReplication is how long a broker waits for the replicas before it answers REQUEST_TIMED_OUT for a partition.
	// The wait holds back the answers for all partitions of the request.
	maxReplication = 5 * time.Second
	// againReplication is the limit for batches that were sent before. Their replicas have had at least maxReplication
	// already.
	againReplication = 100 * time.Millisecond
	// againPause is how long such a batch is not sent if its replicas have not followed yet.
	againPause = time.Second
	// answerSlack is how much longer the publisher waits for an answer.
	answerSlack = 5 * time.Second
)

// send performs the jobs of a wave. A job whose partition is in use by another call waits for its turn while the others
// go on. The call handles events as they come: turns, answers, and its own end.
func (c *call) send(ctx context.Context, jobs []*job) {
	c.turns, c.back = make(chan *job, len(jobs)), make(chan *request, len(jobs))
	c.waiting, c.underway, c.returned = c.waiting[:0], c.underway[:0], false
	c.start(ctx, slices.DeleteFunc(jobs, func(j *job) bool { return !c.admit(j) }))
	done, over := ctx.Done(), c.publisher.life.over
	var tick *time.Ticker
	var ticks <-chan time.Time
	for len(c.waiting)+len(c.underway) > 0 {
		if tick == nil && len(c.waiting) > 0 {
			tick = time.NewTicker(patience / 4)
			defer tick.Stop()
			ticks = tick.C
		}
		select {
		case r := <-c.back:
			c.take(ctx, r)
		case j := <-c.turns:
			c.start(ctx, c.taken(j))
		case now := <-ticks:
			c.lookAfter(now)
			continue
		case <-done:
			c.end()
		case <-over:
			c.end()
		}
		if ctx.Err() != nil || c.publisher.life.ended() {
			done, over, ticks = nil, nil, nil
		}
	}
}

// admit reports whether the job has the turn of its partition. Otherwise the job waits for the turn. If nothing would
// be sent to its leader, the job is answered at once, and the cluster is asked again for the leader of the partition.
func (c *call) admit(j *job) bool {
	if err := j.leader.refusal(j.leader.standing(), c.deadline); err != nil {
		c.refuseAll(j, err)
		c.doubt(j)
		return false
	}
	if j.partition.turn.take(j) {
		return true
	}
	c.waiting = append(c.waiting, j)
	return false
}

// taken returns the jobs that have got their turn by now, including this one.
func (c *call) taken(j *job) []*job {
	jobs := []*job{j}
	for range len(c.turns) {
		jobs = append(jobs, <-c.turns)
	}
	c.waiting = slices.DeleteFunc(c.waiting, func(j *job) bool { return slices.Contains(jobs, j) })
	return jobs
}

// lookAfter answers for jobs that wait for their turn in vain. Either nothing is sent to their leader now, or the call
// has answers to hand back while the holder of the turn makes no progress.
func (c *call) lookAfter(now time.Time) {
	c.leave(func(j *job) error {
		if err := j.leader.refusal(j.leader.standing(), c.deadline); err != nil {
			return err
		}
		if !c.returned || j.partition.turn.stands(now) < patience {
			return nil
		}
		return j.leader.unavailable(false, "partition busy",
			"topic %q partition %d: an earlier call still waits for its leader's answer",
			j.partition.topic, j.partition.index)
	})
}

// leave answers for the waiting jobs for which why returns an error.
func (c *call) leave(why func(*job) error) {
	c.waiting = slices.DeleteFunc(c.waiting, func(j *job) bool {
		err := why(j)
		if err == nil || !j.partition.turn.leave(j) { // otherwise the job arrives in turns
			return false
		}
		c.refuseAll(j, err)
		return true
	})
}

// end takes back everything that the call waits for.
func (c *call) end() {
	c.leave(func(*job) error { return c.ended() })
	for _, g := range c.underway {
		g.leader.withdraw(&g.request)
	}
}

// ended returns the answer for messages that were not sent before ctx or the publisher ended.
func (c *call) ended() error {
	if c.publisher.life.ended() {
		return publisher.ErrClosed
	}
	return publisher.ErrNotAttempted
}

// refuseAll answers for a job that has not had its turn.
func (c *call) refuseAll(j *job, err error) {
	answer := c.outcome(j.partition, err)
	for _, i := range j.queue {
		j.refuse(i, answer.of(c, i))
	}
}
