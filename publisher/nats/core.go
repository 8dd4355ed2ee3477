package nats

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// publishCore is publish without JetStream. A message counts as accepted once the server has read it without reporting
// an error. Messages go in parts, after each of which the server is asked whether it has read everything. Within a
// part, each key has one subject, so that a subject without permission cannot leave a gap in a key.
func (c *call) publishCore(ctx context.Context, messages []publisher.Message, errs []error) {
	c.begin(messages, errs)
	c.stop, c.until, c.last = publisher.StopOf(ctx), time.Now().Add(c.link.p.config.Timeout), c.link.nc.LastError()
	subjects := map[int32]string{} // of the part, by the first message of the key
	var part []int32
	stopped := map[int32]bool{} // keys with a message that was not accepted, by their first messages
	answer := func(i int32, err error) {
		c.settles(i, err)
		if key := c.keys.First[i]; key != keyorder.None && err != nil {
			stopped[key] = true
		}
	}
	confirm := func() {
		c.confirm(ctx, part, answer)
		part = part[:0]
		clear(subjects)
	}
	for at := range messages {
		i, m, key := int32(at), &messages[at], c.keys.First[at]
		if subject, ok := subjects[key]; ok && subject != m.Topic || len(part) == window {
			confirm()
		}
		if stopped[key] || ctx.Err() != nil || c.stop.Closed() {
			answer(i, publisher.ErrNotAttempted)
			continue
		}
		if c.remembered(i) {
			answer(i, errs[at])
			continue
		}
		if err := c.sendCore(ctx, i); err != nil {
			answer(i, err)
			continue
		}
		part = append(part, i)
		if key != keyorder.None {
			subjects[key] = m.Topic
		}
	}
	confirm()
	c.finish(nil, nil)
}

// sendCore sends one message once the connection's queue has room. An error is the message's answer.
func (c *call) sendCore(ctx context.Context, i int32) error {
	for room := c.link.conn.sender.Busy(); room != nil; room = c.link.conn.sender.Busy() {
		select {
		case <-room:
		case <-c.link.closed:
			return c.link.lost()
		case <-ctx.Done():
			return callEnded(ctx)
		}
	}
	err := c.send(i, &c.messages[i])
	if large, ok := errors.AsType[*tooLarge](err); ok {
		return c.askLimit(ctx, large)
	}
	if errors.Is(err, errGone) {
		<-c.link.closed
		return c.link.lost()
	}
	if err == nil {
		c.sends(i)
	}
	return err
}

// confirm answers the messages of a part.
func (c *call) confirm(ctx context.Context, part []int32, answer func(int32, error)) {
	if len(part) == 0 {
		return
	}
	denied, err := c.flush(ctx)
	if err != nil && ctx.Err() != nil && !c.link.nc.IsClosed() {
		c.keepUnread(ctx, part)
	}
	for _, i := range part {
		if _, refused := denied[c.messages[i].Topic]; refused {
			answer(i, notPermitted(c.messages[i].Topic))
		} else {
			answer(i, err)
		}
	}
}

// keepUnread keeps messages that the server has not confirmed to have read when the call ended, and waits for that.
func (c *call) keepUnread(ctx context.Context, part []int32) {
	l, before := c.link, c.link.nc.LastError()
	var all []*owed
	for _, i := range part {
		m := &c.messages[i]
		o := &owed{link: l, until: c.until, answer: publisher.UnavailableError(publisher.ScopeDestination, "no answer",
			"NATS server %s has not confirmed yet that it read the message", l.server.address)}
		l.p.kept.Keep(keptID(m), m.Payload, o)
		all = append(all, o)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.until)
	l.mu.Lock()
	l.users++
	l.mu.Unlock()
	go func() {
		defer l.release()
		defer cancel()
		err := l.nc.FlushWithContext(ctx)
		last := l.nc.LastError() // if it is new, one of the messages may not be permitted
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, o := range all {
			if o.moved = err != nil || last != nil && !errors.Is(last, before); !o.moved {
				o.got = &ack{}
			}
		}
	}()
}

// flush waits until the server has read everything that was sent. It returns the subjects that the server did not
// permit, and the answer for the others.
func (c *call) flush(ctx context.Context) (denied map[string]struct{}, err error) {
	l := c.link
	within, cancel := bounded(ctx)
	defer cancel()
	defer time.AfterFunc(quietBefore, l.doubt).Stop()
	unknown := func(why error) error {
		return publisher.AmbiguousError("no answer",
			"sent to NATS server %s, which has not confirmed that it read it: %w", l.server.address, why)
	}
	if err := l.nc.FlushWithContext(within); err != nil {
		why := context.Cause(within)
		if why == nil {
			<-l.closed
			why = l.lost()
		}
		return l.denied(c), unknown(why)
	}
	// An error is noted before the flush is answered, and passed to the calls a moment later, in order.
	last := l.nc.LastError()
	subject, ok := violated(last)
	denied = l.denied(c)
	if !ok || errors.Is(last, c.last) {
		return denied, nil
	}
	c.last = last
	for {
		if _, ok := denied[subject]; ok {
			return denied, nil
		}
		select {
		case <-c.warned:
			maps.Copy(denied, l.denied(c))
		case <-l.closed:
			return denied, unknown(l.lost())
		case <-within.Done():
			return denied, unknown(context.Cause(within))
		}
	}
}
