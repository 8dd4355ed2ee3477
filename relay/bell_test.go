package relay

import (
	"context"
	"log/slog"
	"testing"
)

func TestBellCoalesces(t *testing.T) {
	t.Parallel()
	began, end, rung := make(chan struct{}), make(chan struct{}), 0
	b := bell{logger: slog.New(slog.DiscardHandler), notify: func(context.Context) error {
		rung++
		began <- struct{}{}
		<-end
		return nil
	}}
	b.ring(t.Context())
	<-began
	for range 100 {
		b.ring(t.Context())
	}
	end <- struct{}{}
	<-began
	end <- struct{}{}
	b.group.Wait()
	if rung != 2 {
		t.Errorf("%d notifications for 101 rings at once, want 2", rung)
	}
}
