//go:build linux

package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Addresses of a name that answer nothing leave time for the one that does, however many they are.
func TestNameWithDeadAddresses(t *testing.T) {
	t.Parallel()
	live, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = live.Close() }()
	_, port, _ := net.SplitHostPort(live.Addr().String())
	hosts := []string{}
	for i := range 5 {
		hosts = append(hosts, fmt.Sprintf("127.0.0.%d", i+2))
		deaf(t, net.JoinHostPort(hosts[i], port))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := dial(ctx, func(context.Context, string) ([]string, error) { return append(hosts, "127.0.0.1"), nil },
		"tcp", net.JoinHostPort("broker.test", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// If no address works, the error is that of the first one, which the system prefers: the same each time, so that it is
// logged once.
func TestNameWithoutAddresses(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	_, port, _ := net.SplitHostPort(closed.Addr().String())
	hosts := []string{"127.0.0.1", "255.255.255.255"} // nothing listens there, and a network that is unreachable
	lookup := func(context.Context, string) ([]string, error) { return slices.Clone(hosts), nil }
	for range 20 {
		_, err = dial(t.Context(), lookup, "tcp", net.JoinHostPort("broker.test", port))
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("the error is %v, not that of the first address", err)
		}
	}
}

// deaf makes an address answer nothing: the queue of connections that nobody accepts is full.
func deaf(t *testing.T, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	for {
		conn, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if TimedOut(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}
