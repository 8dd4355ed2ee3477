package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// window is the maximum number of unanswered messages of one call. It lets a batch of the relay go out at once. More
// gains little: with 4,000 the same server took 128,000 messages a second instead of 120,000.
const window = 1000

// publish sends the messages and fills errs. The time of the messages (until) may be longer than that of the call,
// which also ends when this replica must renew its ownership. What was sent is then kept, or a slow server would be
// sent the same messages by one short call after the other. That happened: nine seconds of a frozen server under load
// made 100 copies.
func (c *call) publish(ctx context.Context, messages []publisher.Message, errs []error) {
	c.begin(messages, errs)
	c.stop = publisher.StopOf(ctx)
	// A caller that waits longer than the configured time has its answers waited for as long.
	c.until, _ = ctx.Deadline()
	unanswered, unsent := c.exchange(ctx)
	if ctx.Err() != nil && time.Until(c.until) > answerTime { // the call had less time than its messages have
		c.keepSent("", unanswered, func(int32, error) {}) // finish answers them
	}
	c.finish(unanswered, unsent)
}

// exchange sends what may be sent and takes answers until nothing is left to do. There is no barrier between rounds:
// each answer makes the next message of its key ready at once, so that a slow key or stream delays no other. Otherwise
// it returns why messages that were sent have no answer, and the answer for messages that were not sent.
//
// It waits for one event at a time: an answer or a subject that is not permitted, room in the connection's queue, the
// end of the connection or of the call, and the time to look for silent streams.
func (c *call) exchange(ctx context.Context) (unanswered, unsent error) {
	c.stalls.timer.Reset(answerTime)
	defer c.stalls.timer.Stop()
	for {
		waiting := c.waiting
		room, more := c.sendAll(ctx)
		// What is sent late in a call has as much time as what is sent first.
		if until := time.Now().Add(c.link.p.config.Timeout); c.waiting > waiting && until.After(c.until) {
			c.until = until
		}
		switch {
		// An answer or room is awaited, whatever the stop says: what is sent is waited for.
		case c.waiting > 0 || room != nil:
		case !more:
			return nil, nil
		// Everything that was sent has its answer, and nothing more may be sent.
		case c.stop.Closed():
			return nil, publisher.ErrNotAttempted
		}
		select {
		case a := <-c.acks:
			c.take(a)
			c.drain() // many answers come together, and so do the messages that follow them
		case <-room:
		case <-c.link.Ended:
			return c.cutOff()
		case <-ctx.Done():
			c.drain()
			return context.Cause(ctx), publisher.ErrNotAttempted
		case now := <-c.stalls.timer.C:
			c.look(now)
		}
	}
}

// sendAll sends as much as the window and the connection's queue allow, and nothing if ctx has ended or the call was
// stopped. It returns a channel to wait for if the queue is full, and reports whether there may be more to send. If the
// connection is gone, the link is about to be closed.
//
// A message is answered here without being sent if its stream was given up, or if an earlier call has sent it and its
// answer is known or still waited for.
func (c *call) sendAll(ctx context.Context) (room <-chan struct{}, more bool) {
	for c.waiting < window && ctx.Err() == nil && !c.stop.Closed() {
		// Messages in the queue of the connection count as sent, and would be ambiguous if it ends. So the queue is
		// kept below a megabyte.
		if room = c.link.conn.Busy(); room != nil {
			return room, true
		}
		i, ok := c.turn()
		if !ok {
			return nil, false
		}
		if c.passOver(i) || c.remembered(i) {
			continue
		}
		switch err := c.send(ctx, i, &c.messages[i]); {
		case err == nil:
			c.state[i] = sent
			c.waiting++
		// exchange finds the end of the link by its own event, and answers all that is left.
		case errors.Is(err, errGone):
			c.ready = append(c.ready, i)
			return nil, true
		default:
			c.settles(i, err)
		}
	}
	return nil, true
}

// take handles one answer. It ignores answers that are not for a waiting message of this call. An answer that cannot be
// read does not settle the message: a service may answer in addition to the stream, and the stream's own answer still
// counts.
func (c *call) take(arrived arrival) {
	i := arrived.message
	if arrived.number != c.number || int(i) >= len(c.state) {
		return
	}
	if arrived.answer == nil {
		c.deny(arrived.denied)
		return
	}
	if c.state[i] != sent {
		c.link.late(arrived) // the message may have been kept meanwhile
		return
	}
	a, ok := readAck(arrived.answer)
	if !ok {
		return
	}
	subject := c.messages[i].Topic
	c.meet(a, subject)
	c.stalls.heard(c.link, subject)
	c.settles(i, c.answer(&c.messages[i], a))
}

// answer returns the message's answer.
func (c *call) answer(m *publisher.Message, a ack) error {
	if a.unheard {
		return c.unheard(m.Topic)
	}
	return c.fate(m.Topic, a, a.answer(m, c.link.p.names))
}

// drain takes the answers that have arrived.
func (c *call) drain() {
	for {
		select {
		case a := <-c.acks:
			c.take(a)
		default:
			return
		}
	}
}

// deny answers the messages in flight to a subject that the server has refused. Messages to the subject that have not
// been sent are sent and denied in turn, at most one of each key.
func (c *call) deny(subject string) {
	for i := range c.state {
		if c.state[i] == sent && c.messages[i].Topic == subject {
			c.settles(int32(i), notPermitted(subject))
		}
	}
}

// cutOff takes the answers that came before the end of the link. What was sent and is not among them may be stored or
// not; the caller publishes it again with the same id. The stalls are forgotten because the connection, and not a
// stream, was the trouble.
func (c *call) cutOff() (unanswered, unsent error) {
	c.drain()
	c.stalls.clear()
	lost := c.link.Lost()
	return lost, lost
}

// silence is the answer for a message that was sent and not acknowledged. If the server has sent something since it was
// asked to, the message's stream is what does not answer. If it has sent nothing, the answer names no stream, and the
// relay holds the destination.
func (c *call) silence(subject string, why error) error {
	answer := &publisher.Error{
		Class: publisher.Ambiguous, Short: "no acknowledgement", Err: c.unanswered(why),
	}
	if begun := c.stalls.begun; !begun.IsZero() && !c.link.QuietSince(begun) {
		answer.Scope, answer.Fate = publisher.ScopeTopic, c.link.streams.find(subject).fate()
	}
	return answer
}

// unanswered returns the reason why messages that were sent have no acknowledgement.
func (c *call) unanswered(why error) error {
	return fmt.Errorf("sent to NATS server %s, not acknowledged: %w", c.link.server.address, why)
}

const (
	errStoreFailed = 10077 // from a stream at one of its limits, or one whose disk has failed
	errNoStream    = 10059
	errWrongStream = 10060 // the stream that answers is not the one to which the subject should belong
)

// fate adds the stream that gave the answer as its fate, if all subjects of the stream are in trouble. The relay then
// holds all of them with one hold, and one row tries for all.
func (c *call) fate(subject string, a ack, err error) error {
	if a.refusal == nil || a.stream == "" || publisher.ScopeOf(err) != publisher.ScopeTopic {
		return err
	}
	switch a.refusal.ErrCode {
	case errNoStream, errWrongStream:
		return err
	case errStoreFailed:
		// The code does not say whether the whole stream is full, or only the subject, if the stream limits each
		// subject.
		if s := c.link.ask(subject, freshFor); s == nil || s.name != a.stream || !s.whole {
			return err
		}
	}
	return publisher.WithFate(err, publisher.Fate{Kind: publisher.FateStream, Name: a.stream})
}
