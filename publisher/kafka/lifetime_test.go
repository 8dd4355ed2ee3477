package kafka

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// goroutines returns the stacks of the goroutines that the publishers of this process have started.
func goroutines() (stacks []string) {
	buffer := make([]byte, 16<<20)
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "publisher/kafka.(*broker)") || strings.Contains(stack, "publisher/kafka.(*Publisher)") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// A publisher has no goroutine while nothing is under way. It has none after Close, whatever is under way then: an
// answer, a dial, a pause, a call that waits for its turn.
func TestGoroutines(t *testing.T) { // not parallel: it counts the goroutines of the process
	if before := goroutines(); len(before) > 0 {
		t.Fatalf("of another test:\n%s", before[0])
	}
	for name, begin := range brokerTroubles {
		s := &spread{fakeCluster: newFakeCluster(t, 3), troubled: 1, first: 2, leaders: []int32{0, 1, 2}}
		s.topic("t", s.leaders...)
		h := &holes{end: make(chan struct{})}
		p := s.open(func(c *Config) { c.Dial = h.dial })
		if len(goroutines()) > 0 {
			t.Error("a publisher that is not used has goroutines")
		}
		done := make(chan []error, 20)
		for range cap(done) {
			messages := s.messages()
			go func() { done <- p.Publish(context.Background(), messages) }()
		}
		for range cap(done) {
			expectNone(t, <-done)
		}
		eventually(t, func() bool { return len(goroutines()) == 0 })
		end := begin(s, h)
		for range cap(done) {
			messages := s.messages()
			go func() { done <- p.Publish(context.Background(), messages) }()
		}
		<-done
		begun := time.Now()
		_ = p.Close()
		eventually(t, func() bool { // a goroutine that ends is visible for a moment
			return !slices.ContainsFunc(goroutines(), func(stack string) bool {
				return !strings.Contains(stack, ".(*Publisher).Publish(")
			})
		})
		for range cap(done) - 1 {
			<-done
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: the calls ended %v after Close", name, took)
		}
		eventually(t, func() bool { return len(goroutines()) == 0 })
		end()
	}
}
