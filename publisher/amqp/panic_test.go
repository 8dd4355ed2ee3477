package amqp_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
)

// mined is a context that panics when it is asked, while its mine is set.
type mined struct {
	context.Context //nolint:containedctx // it is one
	mine            *atomic.Bool
}

func (m mined) Done() <-chan struct{} {
	if m.mine.Load() {
		panic("mine")
	}
	return m.Context.Done()
}

// A call that panics gives its channel back: however many do, later calls have one.
func TestPanicGivesChannelBack(t *testing.T) {
	t.Parallel()
	var mine atomic.Bool
	f := newFake(t, listen(t), func(m *sent) {
		if m.topic == "mine" {
			mine.Store(true)
			return
		}
		m.ack()
	})
	p := f.open(t, "")
	panics := 0
	for range 20 {
		func() {
			defer func() {
				if recover() == "mine" {
					panics++
				}
			}()
			defer mine.Store(false)
			p.Publish(mined{within(t, time.Second), &mine}, numbered(1, 0, "mine"))
		}()
	}
	if panics == 0 {
		t.Error("no panics")
	}
	want(t, "after", p.Publish(within(t, 10*time.Second), numbered(1, 0, "topic"))[0], 0)
}
