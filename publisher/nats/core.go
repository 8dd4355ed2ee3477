package nats

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher/internal/keyorder"
)

// Without JetStream, nothing answers a message. A message counts as accepted once the server has read it without
// reporting an error, and the answer to a ping says that the server has read all that was sent before the ping. Of each
// key, the messages to one subject are therefore sent one after the other. The next subject waits for the answer, so
// that a subject without permission cannot leave a gap in the key.

// follow makes the next message of a key ready to be sent behind message i, if it has the same subject.
func (c *call) follow(i int32) {
	n := c.keys.Next[i]
	if !c.link.p.config.Core || n == keyorder.None || c.messages[n].Topic != c.messages[i].Topic {
		return
	}
	if c.state[n] = head; int(n) < c.cursor {
		c.due = append(c.due, n)
	}
}

// confirm asks the server whether it has read what was sent, unless it is being asked. The answers arrive as if the
// server had answered each message.
func (c *call) confirm(ctx context.Context) {
	if !c.link.p.config.Core || c.asking.Load() || c.waiting == 0 {
		return
	}
	var part []arrival
	for i := range c.state {
		if c.state[i] == sent {
			part = append(part, arrival{number: c.number, message: int32(i)})
		}
	}
	c.asking.Store(true)
	l, until, asking := c.link, c.until, c.asking
	l.users.Add(+1)
	go func() {
		defer l.users.Add(-1)
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		defer time.AfterFunc(quietBefore, l.doubt).Stop()
		if l.nc.FlushWithContext(ctx) != nil || !l.heardErrors(ctx) {
			return // the call sees itself that the connection has ended, or its time
		}
		asking.Store(false)
		for _, arrived := range part {
			l.pass(arrived)
		}
	}()
}

// heardErrors waits until the server's last error has been passed to the calls. The library notes an error before it
// answers a flush, and calls back a moment later.
func (l *link) heardErrors(ctx context.Context) bool {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for last := l.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation); {
		if told := l.told.Load(); told != nil && errors.Is(*told, last) {
			break
		}
		select {
		case <-again.C:
		case <-l.closed:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
