package connect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// breaking is a link to a server that answers each greeting, until the link breaks.
type breaking struct {
	State
	breaks time.Time // time at which the next greeting fails; the zero time means never
}

var errBroken = errors.New("connection reset")

// Greet fails at once when the connection has broken. Its goroutine tells that a moment later.
func (l *breaking) Greet(context.Context) (asked bool) {
	if l.breaks.IsZero() || time.Now().Before(l.breaks) {
		l.Heard()
	} else {
		time.AfterFunc(10*time.Millisecond, func() { close(l.Ended) })
	}
	return true
}

func (l *breaking) Away() error { return nil }
func (l *breaking) Lost() error { return errBroken }
func (l *breaking) Close()      {}

// A connection that breaks while it is checked is lost, and not one on which the server is silent.
func TestKeeperBrokenIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		life := NewLifetime()
		made := 0
		k := Keeper[*breaking]{
			Life: life,
			Dial: func(context.Context) (*breaking, error) {
				link := &breaking{State: State{Ended: make(chan struct{})}}
				if made++; made == 1 {
					link.breaks = time.Now().Add(time.Minute)
				}
				return link, nil
			},
			Outdated: func(*breaking) bool { return false },
			Replaced: func(_, _ *breaking) { t.Error("it was taken for silent") },
		}
		first, err := k.Borrow(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		<-first.Ended
		synctest.Wait()
		if second, err := k.Borrow(t.Context(), false); err != nil || second == first {
			t.Errorf("%v, the same link: %v", err, second == first)
		}
		life.End()
		life.Wait()
	})
}
