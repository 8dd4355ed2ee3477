package connect

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fragile is a link to a server that answers each greeting, until the link breaks.
type fragile struct {
	State
	breaks time.Time // time at which the next greeting fails; the zero time means never
	slow   time.Duration
	closed atomic.Bool
}

var errBroken = errors.New("connection reset")

// Greet fails at once when the connection has broken. Its goroutine tells that a moment later.
func (l *fragile) Greet(context.Context) (asked bool) {
	if l.breaks.IsZero() || time.Now().Before(l.breaks) {
		l.Heard()
	} else {
		time.AfterFunc(10*time.Millisecond, func() { close(l.Ended) })
	}
	return true
}

// Away takes as long as a goroutine that gets no processor for a while.
func (l *fragile) Away() error {
	if <-time.After(l.slow); l.closed.Load() {
		return errBroken
	}
	return nil
}

func (l *fragile) Lost() error { return errBroken }
func (l *fragile) Close()      { l.closed.Store(true) }

// keep returns a keeper whose first link is the given one, and ends it after the test.
func keep(t *testing.T, first *fragile) (k *Keeper[*fragile], end func()) {
	made := 0
	k = &Keeper[*fragile]{
		Life: NewLifetime(),
		Dial: func(context.Context) (*fragile, error) {
			if made++; made == 1 {
				return first, nil
			}
			return &fragile{State: State{Ended: make(chan struct{})}}, nil
		},
		Outdated: func(*fragile) bool { return false },
		Replaced: func(_, _ *fragile) { t.Error("it was taken for silent") },
	}
	return k, func() { k.Life.End() }
}

// A connection that breaks while it is checked is lost, and not one on which the server is silent.
func TestKeeperBrokenIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := &fragile{State: State{Ended: make(chan struct{})}, breaks: time.Now().Add(time.Minute)}
		k, end := keep(t, first)
		defer end()
		if _, err := k.Borrow(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		<-first.Ended
		synctest.Wait()
		if second, err := k.Borrow(t.Context(), false); err != nil || second == first {
			t.Errorf("%v, the same link: %v", err, second == first)
		}
	})
}

// A call that borrows a link just when another one takes its place does not take its end for an outage.
func TestKeeperReplacedIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := &fragile{State: State{Ended: make(chan struct{})}, slow: time.Minute}
		k, end := keep(t, first)
		defer end()
		k.Outdated = func(link *fragile) bool { return link == first }
		link, err := k.Borrow(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		link.Common().Users.Add(-1)
	})
}
