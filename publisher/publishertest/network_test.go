package publishertest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair returns a connection over the network and its far end.
func pair(t *testing.T, n *Network) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if near, err = n.Dial(t.Context(), "tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("received %q, %v; not %q", got, err, want)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	n := NewNetwork()
	near, far := pair(t, n)
	read := make(chan error)
	go func() {
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	send(t, near, "x")
	receive(t, far, "x")
	n.Cut()
	if err := <-read; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a read that is cut: %v", err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the far end sees %v", err)
	}
	if _, err := n.Dial(t.Context(), "tcp", far.LocalAddr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial while cut: %v", err)
	}
	n.Restore()
	if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection survived its cut: %v", err)
	}
	pair(t, n)
}

func TestCutAfter(t *testing.T) {
	t.Parallel()
	n := NewNetwork()
	near, far := pair(t, n)
	n.CutAfter(5)
	send(t, near, "123")
	receive(t, far, "123")
	if written, err := near.Write([]byte("4567")); written != 2 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("wrote %d, %v", written, err)
	}
	n.AwaitCut(t)
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	n := NewNetwork()
	near, far := pair(t, n)
	n.Freeze()
	send(t, far, "back")
	soon := time.Now().Add(20 * time.Millisecond)
	_ = near.SetReadDeadline(soon)
	if read, err := near.Read(make([]byte, 4)); read != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v", read, err)
	}
	_ = near.SetWriteDeadline(soon)
	if written, err := near.Write([]byte("x")); written != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("wrote %d, %v", written, err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), soon)
	defer cancel()
	if _, err := n.Dial(ctx, "tcp", far.LocalAddr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial: %v", err)
	}
	_ = near.SetDeadline(time.Time{})
	wrote := make(chan error)
	go func() {
		_, err := near.Write([]byte("there"))
		wrote <- err
	}()
	n.AwaitWrite(t, int64(len("x")+len("there")))
	select {
	case err := <-wrote:
		t.Errorf("a write got through: %v", err)
	default:
	}
	n.Restore()
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	receive(t, far, "there")
	receive(t, near, "back")
}

// A call that waits in a frozen connection ends when its deadline is moved, or with Close.
func TestFreezeEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		end  func(*Network, net.Conn)
		want error
	}{
		"close":    {func(_ *Network, c net.Conn) { _ = c.Close() }, net.ErrClosed},
		"deadline": {func(_ *Network, c net.Conn) { _ = c.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"cut":      {func(n *Network, _ net.Conn) { n.Cut() }, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := NewNetwork()
			near, _ := pair(t, n)
			n.Freeze()
			ended := make(chan error)
			go func() {
				_, err := near.Read(make([]byte, 1))
				ended <- err
			}()
			go func() {
				_, err := near.Write([]byte("x"))
				ended <- err
			}()
			n.AwaitWrite(t, 1)
			end.end(n, near)
			for range 2 {
				if err := <-ended; !errors.Is(err, end.want) {
					t.Errorf("ended with %v, not %v", err, end.want)
				}
			}
		})
	}
}

func TestMute(t *testing.T) {
	t.Parallel()
	n := NewNetwork()
	near, far := pair(t, n)
	n.Mute()
	send(t, near, "there")
	receive(t, far, "there")
	send(t, far, "back")
	_ = far.Close()
	_ = near.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if read, err := near.Read(make([]byte, 4)); read != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v", read, err)
	}
	_ = near.SetReadDeadline(time.Time{})
	n.Restore()
	receive(t, near, "back")
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the stream: %v", err)
	}
}

// One route is broken, and another one to the same server works.
func TestRoutes(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	for name, breaks := range map[string]struct {
		disturb func(Route)
		want    error
	}{
		"cut":    {Route.Cut, syscall.ECONNRESET},
		"frozen": {Route.Freeze, os.ErrDeadlineExceeded},
		"muted":  {Route.Mute, os.ErrDeadlineExceeded},
	} {
		n := NewNetwork()
		n.Alias("one", listener.Addr().String())
		n.Alias("two", listener.Addr().String())
		connect := func(address string) (near, far net.Conn) {
			t.Helper()
			if near, err = n.Dial(t.Context(), "tcp", address); err != nil {
				t.Fatal(err)
			}
			if far, err = listener.Accept(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = near.Close()
				_ = far.Close()
			})
			return near, far
		}
		one, farOne := connect("one")
		two, farTwo := connect("two")
		breaks.disturb(n.Route("one"))
		_, _ = io.WriteString(farOne, "x") // after a cut, nothing reads it
		_ = one.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := one.Read(make([]byte, 1)); !errors.Is(err, breaks.want) {
			t.Errorf("%s: a read: %v", name, err)
		}
		send(t, two, "there")
		receive(t, farTwo, "there")
		send(t, farTwo, "back")
		receive(t, two, "back")
		connect("two")
		n.Route("one").Restore()
		connect("one")
	}
}
