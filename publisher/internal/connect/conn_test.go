package connect

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

func newTestConn(t *testing.T) (s *Conn, peer net.Conn, ended chan error) {
	t.Helper()
	here, there := net.Pipe()
	ended = make(chan error, 1)
	var running sync.WaitGroup
	t.Cleanup(func() { _ = here.Close(); _ = there.Close(); running.Wait() })
	s = &Conn{Conn: here, Go: running.Go}
	s.Ended = func() { ended <- s.Failure() }
	return s, there, ended
}

func TestBurstIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	s, peer, _ := newTestConn(t)
	b := make([]byte, 100)
	s.Burst(+1)
	for _, piece := range []string{"one ", "two ", "three"} {
		_, _ = s.Write([]byte(piece))
	}
	s.Burst(-1)
	if n, err := peer.Read(b); err != nil || string(b[:n]) != "one two three" {
		t.Errorf("the peer got %q first: %v", b[:n], err)
	}
	_, _ = s.Write([]byte("after"))
	if n, err := peer.Read(b); err != nil || string(b[:n]) != "after" {
		t.Errorf("the peer got %q outside of a burst: %v", b[:n], err)
	}
}

// A peer that does not read keeps no write waiting. The sender says so, and everything arrives once the peer reads.
func TestWritesDoNotWait(t *testing.T) {
	t.Parallel()
	s, peer, _ := newTestConn(t)
	const pieces, size = 40, 64 << 10
	var room <-chan struct{}
	for range pieces {
		_, _ = s.Write(make([]byte, size))
		room = s.Busy()
	}
	if room == nil {
		t.Fatal("two megabytes that nobody reads leave room for more")
	}
	if n, err := io.CopyN(io.Discard, peer, pieces*size); err != nil {
		t.Errorf("the peer got %d bytes: %v", n, err)
	}
	select {
	case <-room:
	case <-time.After(10 * time.Second):
		t.Error("there is no room although everything was read")
	}
}

func TestFailedWriteIsTold(t *testing.T) {
	t.Parallel()
	s, peer, ended := newTestConn(t)
	_ = peer.Close()
	if n, err := s.Write([]byte("nobody is there")); n != len("nobody is there") || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	if err := <-ended; err == nil {
		t.Error("the write has not failed")
	}
	for range 100 {
		_, _ = s.Write(make([]byte, mostQueued))
	}
	if s.Busy() != nil {
		t.Error("what is never written is waited for")
	}
}
