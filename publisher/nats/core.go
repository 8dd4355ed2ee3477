package nats

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A part holds what is sent before the server is asked whether it has read everything. Within a part, each key has one
// subject, so that a subject without permission cannot leave a gap in a key.
type part struct {
	sent     []int32
	subjects map[string]string // subject by key
}

// publishCore is publish without JetStream. A message counts as accepted once the server has read it without reporting
// an error.
func (l *lane) publishCore(ctx context.Context, messages []publisher.Message, errs []error) {
	p := part{subjects: map[string]string{}}
	stopped := map[string]struct{}{} // keys with a message that was not accepted
	answer := func(i int32, err error) {
		errs[i] = err
		if err != nil && messages[i].Key != nil {
			stopped[string(messages[i].Key)] = struct{}{}
		}
	}
	stop := publisher.StopOf(ctx)
	l.begin()
	l.batch.limit, l.batch.until = 0, time.Now().Add(l.link.timeout)
	for i := range messages {
		m := &messages[i]
		key := string(m.Key)
		if subject, ok := p.subjects[key]; m.Key != nil && ok && subject != m.Topic || len(p.sent) == window {
			l.confirm(ctx, messages, &p, answer)
		}
		if _, waits := stopped[key]; m.Key != nil && waits {
			errs[i] = publisher.ErrNotAttempted
			continue
		}
		if ctx.Err() != nil || stop.Closed() {
			answer(int32(i), publisher.ErrNotAttempted)
			continue
		}
		if kept, err := l.keptUnread(m); kept {
			answer(int32(i), err)
			continue
		}
		err := l.roomFor(ctx)
		if err == nil {
			err = l.send(int32(i), m)
		}
		if large, ok := errors.AsType[*tooLarge](err); ok {
			err = l.askLimit(ctx, large, &l.batch.limit)
		}
		switch {
		case errors.Is(err, errGone):
			<-l.link.closed
			answer(int32(i), l.link.lost())
		case err != nil:
			answer(int32(i), err)
		default:
			p.sent = append(p.sent, int32(i))
			if m.Key != nil {
				p.subjects[key] = m.Topic
			}
		}
	}
	l.confirm(ctx, messages, &p, answer)
	l.wire.forget()
	l.good = ""
}

// confirm answers what was sent since the last confirm.
func (l *lane) confirm(ctx context.Context, messages []publisher.Message, p *part, answer func(int32, error)) {
	if len(p.sent) == 0 {
		return
	}
	denied, err := l.flush(ctx)
	if err != nil && ctx.Err() != nil && !l.link.nc.IsClosed() {
		l.keepUnread(ctx, messages, p.sent)
	}
	for _, i := range p.sent {
		if _, refused := denied[messages[i].Topic]; refused {
			answer(i, notPermitted(messages[i].Topic))
		} else {
			answer(i, err)
		}
	}
	p.sent = p.sent[:0]
	clear(p.subjects)
}

// keepUnread keeps messages that the server has not confirmed to have read when the call ended, and waits for that.
func (l *lane) keepUnread(ctx context.Context, messages []publisher.Message, sent []int32) {
	link, before := l.link, l.link.nc.LastError()
	var all []*kept
	for _, i := range sent {
		all = append(all, link.keeper.keep(&messages[i], messages[i].Topic, l.batch.until))
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), l.batch.until.Add(keptAfter))
	link.mu.Lock()
	link.users++
	link.mu.Unlock()
	go func() {
		defer link.release()
		defer cancel()
		err := link.nc.FlushWithContext(ctx)
		if last := link.nc.LastError(); err == nil && last != nil && !errors.Is(last, before) {
			err = last // one of the messages may not be permitted
		}
		if err != nil {
			link.keeper.lose(all, err)
			return
		}
		for _, one := range all {
			link.keeper.answered(one, &nats.Msg{})
		}
	}()
}

// keptUnread returns the answer for a message that an earlier call has sent, if it is kept.
func (l *lane) keptUnread(m *publisher.Message) (kept bool, err error) {
	one := l.link.keeper.adopt(m, nil, func() string { return "" })
	if one == nil {
		return false, nil
	}
	answer, over := l.link.keeper.look(one, time.Now())
	if answer == nil && over == nil {
		return true, publisher.UnavailableError(publisher.ScopeDestination, "no answer",
			"NATS server %s has not confirmed yet that it read the message", l.link.server.address)
	}
	if l.link.keeper.forget(one); over != nil {
		over = publisher.AmbiguousError("no answer", "sent to NATS server %s, which has not confirmed that it read it: %w",
			l.link.server.address, over)
	}
	return true, over
}

// roomFor waits until the connection's queue has room.
func (l *lane) roomFor(ctx context.Context) error {
	for {
		room := l.link.conn.busy()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-l.link.closed:
			return errGone
		case <-ctx.Done():
			return callEnded(ctx)
		}
	}
}

// begin notes the last error that the server has reported so far.
func (l *lane) begin() { l.last = l.link.nc.LastError() }

// flush waits until the server has read everything that was sent. It returns the subjects that the server did not
// permit, and the answer for the others.
func (l *lane) flush(ctx context.Context) (denied map[string]struct{}, err error) {
	within, cancel := bounded(ctx)
	defer cancel()
	defer time.AfterFunc(quietBefore, l.link.doubt).Stop()
	if err := l.link.nc.FlushWithContext(within); err != nil {
		why := context.Cause(within)
		if why == nil {
			<-l.link.closed
			why = l.link.lost()
		}
		return l.link.denied(l), publisher.AmbiguousError("no answer", "sent to NATS server %s, which has not confirmed that it read it: %w",
			l.link.server.address, why)
	}
	// An error is noted before the flush is answered, and passed to the lanes a moment later, in order.
	last := l.link.nc.LastError()
	subject, ok := violated(last)
	if !ok || errors.Is(last, l.last) {
		return l.link.denied(l), nil
	}
	l.last = last
	denied = l.link.denied(l)
	for {
		if _, ok := denied[subject]; ok {
			return denied, nil
		}
		select {
		case <-l.warned:
			for subject := range l.link.denied(l) {
				denied[subject] = struct{}{}
			}
		case <-l.link.closed:
			return denied, publisher.AmbiguousError("no answer", "sent to NATS server %s, and the connection ended: %w", l.link.server.address,
				l.link.lost())
		case <-within.Done():
			return denied, publisher.AmbiguousError("no answer", "sent to NATS server %s: %w", l.link.server.address, context.Cause(within))
		}
	}
}
