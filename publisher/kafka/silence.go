package kafka

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// patience is how long an answer is waited for while the answers of other brokers are there.
	patience = time.Second
	// slowest is how many bytes a second any link carries: large requests are given more time.
	slowest = 1 << 20
	// maxSilence is the longest time for which a broker that does not answer is sent nothing.
	maxSilence = 30 * time.Second
	// turnTick is how often a call that waits for one partition looks at the others.
	turnTick = 10 * time.Millisecond
)

// A silence is that a broker takes requests and does not answer them: its disk hangs, or its process. While it
// lasts one call at a time sends to it and waits, and the more rarely the longer that takes; all others
// answer for its partitions at once.
type silence struct {
	requests int // without an answer, in a row; 0 is no silence
	asked    bool
	noted    time.Time
	until    time.Time // nobody asks before it
	logged   bool
}

// mayAsk returns nil if the call may send to the broker now, else the answer for its messages. A broker that
// is silent then waits for this call, until dismiss.
func (c *call) mayAsk(b *broker) error {
	if slices.Contains(c.asking, b) || !b.silent() {
		return nil
	}
	alone := c.publisher.cluster.unreachable() // then nobody else is delayed
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silence.asked || !alone && time.Now().Before(b.silence.until) {
		return silent(b, alone)
	}
	b.silence.asked = true
	c.asking = append(c.asking, b)
	return nil
}

// silent reports whether the last request was not answered.
func (b *broker) silent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.silence.requests > 0
}

// silent is the answer for messages that are not sent to a silent broker. Alone is that no other broker is there.
func silent(b *broker, alone bool) error {
	return b.unavailable(alone, "no answer",
		"kafka broker %s takes requests and does not answer them: look at its log and its disks", b.address)
}

// dismiss lets other calls ask.
func (c *call) dismiss() {
	for _, b := range c.asking {
		b.mu.Lock()
		b.silence.asked = false
		b.mu.Unlock()
	}
	clear(c.asking)
	c.asking = c.asking[:0]
}

// withoutSilent answers the jobs whose leader is silent and returns the others. The cluster is asked again who
// leads their partitions.
func (c *call) withoutSilent(jobs []*job) []*job {
	return slices.DeleteFunc(jobs, func(j *job) bool {
		err := c.mayAsk(j.leader)
		if err == nil {
			return false
		}
		if known, _ := c.publisher.cluster.cached(j.partition.topic, c.now); known != nil {
			c.publisher.cluster.doubt(known, c.now)
		}
		c.refuseAll(j, err)
		return true
	})
}

// refuseAll answers for a job that has not had its turn.
func (c *call) refuseAll(j *job, err error) {
	answer := c.outcome(j.partition, err)
	for _, i := range j.queue {
		j.refuse(i, answer.of(c, i))
	}
}

// bound returns how long an answer to so many bytes is waited for while others are not to be delayed, and
// whether the broker has been silent before.
func (b *broker) bound(ctx context.Context, size int) (wait time.Duration, silent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait = patience + time.Duration(size)*time.Second/slowest
	wait <<= min(max(b.silence.requests-1, 0), 4)
	return within(ctx, wait), b.silence.requests > 0
}

// answers notes an answer, which ends the silence.
func (b *broker) answers() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = time.Now()
	if b.silence.requests == 0 {
		return
	}
	if b.silence.logged {
		b.publisher.log.Info("kafka broker answers again", "broker", b.address)
	}
	b.silence = silence{asked: b.silence.asked}
}

// unanswered notes that a request sent at this time was waited for in vain. The first time that may have been the
// connection's fault, and the next call asks at once, on another one. Requests that were under way beside it say no
// more.
func (b *broker) unanswered(asked time.Time) {
	alone := b.publisher.cluster.unreachable()
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.silence
	if s.requests > 0 && asked.Before(s.noted) {
		return
	}
	s.requests, s.noted = s.requests+1, now
	b.failed = &linkError{short: "no answer", address: b.address, found: "it takes requests and does not answer them",
		remedy: "look at its log and its disks"}
	b.redial()
	if s.requests == 1 {
		return
	}
	s.until = now.Add(min(10*now.Sub(asked), maxSilence))
	if !s.logged && !alone {
		s.logged = true
		b.publisher.log.Warn("kafka broker does not answer: its partitions wait", "broker", b.address)
	}
}

// othersAnswer reports whether other brokers have answered requests, of whatever call, that were sent at this time or later.
func (b *broker) othersAnswer(since time.Time) bool {
	c := b.publisher.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.nodes {
		if other != b && other.answeredSince(since) {
			return true
		}
	}
	return false
}

func (b *broker) answeredSince(since time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard.After(since)
}

// A round is the leaders that a call waits for at the same time. Once somebody has answered, those that are
// late are given up as soon as there are no others.
type round struct {
	answers  func(*broker, time.Time) bool // whether others answer other calls since
	mu       sync.Mutex
	running  int // leaders that the call still sends to
	answered bool
	late     map[*broker]context.CancelFunc
}

// request notes that the leader is sent a request, whose answer is late after wait. It is over when the
// returned function is called.
func (r *round) request(ctx context.Context, leader *broker, wait time.Duration) (context.Context, func(answered bool)) {
	ctx, cancel := context.WithCancel(ctx)
	over := false
	var timer *time.Timer
	sent := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	timer = time.AfterFunc(wait, func() {
		elsewhere := r.answers(leader, sent)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !over {
			r.late[leader] = cancel
			r.answered = r.answered || elsewhere
			r.check()
			timer.Reset(patience / 4)
		}
	})
	return ctx, func(answered bool) {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		timer.Stop()
		over = true
		delete(r.late, leader)
		r.answered = r.answered || answered
	}
}

// finished notes that the call has nothing more for a leader.
func (r *round) finished() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.check()
}

// check gives up the late ones if nobody else is waited for; r.mu is held.
func (r *round) check() {
	if r.answered && len(r.late) == r.running {
		for _, cancel := range r.late {
			cancel()
		}
	}
}
