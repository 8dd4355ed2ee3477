package cluster

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo starts a server that sends back its input, and a proxy in front of it.
func echo(t *testing.T) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	ports, err := freePorts(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(ports[0], listener.Addr().String())
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// hears sends a byte and reports whether it comes back in time.
func hears(t *testing.T, conn net.Conn, limit time.Duration) bool {
	t.Helper()
	if _, err := conn.Write([]byte{'x'}); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	_, err := conn.Read(make([]byte, 1))
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	return err == nil
}

// A proxy that loses packets transmits nothing, on existing connections and on new ones. Sent data arrives in the end.
func TestBlackhole(t *testing.T) {
	t.Parallel()
	p := echo(t)
	for round := range 20 {
		before, err := net.Dial("tcp", p.Address)
		if err != nil {
			t.Fatal(err)
		}
		if !hears(t, before, time.Minute) {
			t.Fatalf("round %d: nothing passes", round)
		}
		if err := p.Blackhole(); err != nil {
			t.Fatal(err)
		}
		if hears(t, before, 10*time.Millisecond) {
			t.Fatalf("round %d: a connection carries data", round)
		}
		if late, err := net.DialTimeout("tcp", p.Address, 100*time.Millisecond); err == nil {
			if hears(t, late, 100*time.Millisecond) {
				t.Errorf("round %d: a new connection carries data", round)
			}
			_ = late.Close()
		}
		if err := p.Restore(); err != nil {
			t.Fatal(err)
		}
		_ = before.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := before.Read(make([]byte, 1)); err != nil {
			t.Fatalf("round %d: what was lost does not arrive: %v", round, err)
		}
		_ = before.Close()
	}
}
