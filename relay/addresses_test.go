//go:build linux

package relay

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// An address of the database's name that answers nothing leaves time for the next one, within the time that an owner
// has to connect.
func TestNameWithADeadAddress(t *testing.T) {
	t.Parallel()
	to, err := pgxpool.ParseConfig(pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	dead, live := deadAddress(t), to.ConnConfig.Host
	to.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{dead, live}, nil }
	c := Config{Destinations: []*Destination{{Name: "a"}}}
	_, closePool, err := c.NewPool(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer closePool()
	ctx, cancel := context.WithTimeout(t.Context(), connectTimeout)
	defer cancel()
	conn, err := c.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(ctx)
}

// deadAddress returns an address that answers nothing: the queue of connections that nobody accepts is full.
func deadAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 100*time.Millisecond)
		// The dialer's own timer and the socket's deadline, whichever is first, give different errors.
		if failed, is := errors.AsType[net.Error](err); is && failed.Timeout() {
			return listener.Addr().String()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}
