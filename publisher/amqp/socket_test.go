package amqp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func newTestSocket(t *testing.T) (s *socket, peer net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return &socket{
		Conn: here, raw: here, dispatched: func() {}, blocks: func() bool { return false }, start: func(f func()) { go f() },
		leave: make(chan struct{}, 1),
	}, there
}

func TestBurstIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	s, peer := newTestSocket(t)
	pieces := make(chan []byte)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 2*corkSize)
			n, err := peer.Read(b)
			if err != nil {
				return
			}
			pieces <- b[:n]
		}
	}()
	go s.burst(t.Context(), func() {
		for _, piece := range []string{"one ", "two ", "three"} {
			_, _ = s.Write([]byte(piece))
		}
	})
	if got := string(<-pieces); got != "one two three" {
		t.Errorf("the peer got %q first", got)
	}
	go func() { _, _ = s.Write([]byte("after")) }()
	if got := string(<-pieces); got != "after" {
		t.Errorf("the peer got %q outside of a burst", got)
	}
	_ = s.Close()
	for range pieces {
		t.Error("the peer got more")
	}
}

// The library shuts down beside its reader when a write fails, and panics there if the broker says at that moment that it
// blocks. A failed write is therefore told by the read that follows.
func TestFailedWriteIsToldByRead(t *testing.T) {
	t.Parallel()
	s, peer := newTestSocket(t)
	_ = peer.Close()
	if n, err := s.Write([]byte("nobody is there")); n != len("nobody is there") || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	if err := s.SetDeadline(time.Now()); err != nil {
		t.Errorf("deadline: %v", err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("read: %v, want why the write failed", err)
	}
}

func TestBlockedBurstEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, _ := newTestSocket(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.burst(ctx, func() { _, _ = s.Write([]byte("nobody reads this")) })
	}()
	cancel()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the write still blocks")
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading says %v, want that the connection was given up over its write", err)
	}
}

// If the broker blocks publishing, a burst ends with its context, and its write goes on by itself.
func TestBurstDuringAnAlarm(t *testing.T) {
	t.Parallel()
	s, peer := newTestSocket(t)
	s.blocks = func() bool { return true }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.burst(ctx, func() { _, _ = s.Write([]byte("first ")) })
	_, _ = s.Write([]byte("second "))
	s.burst(ctx, func() { _, _ = s.Write([]byte("third")) })
	b := make([]byte, len("first second third"))
	if _, err := io.ReadFull(peer, b); err != nil || string(b) != "first second third" {
		t.Errorf("the peer got %q: %v", b, err)
	}
}
