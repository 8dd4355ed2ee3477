package link

import (
	"bufio"
	"net"
	"sync"
	"testing"
	"time"
)

// echo serves lines back and returns its address.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					_, _ = conn.Write(append(lines.Bytes(), '\n'))
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); group.Wait() })
	return listener.Addr().String()
}

func open(t *testing.T) *Link {
	t.Helper()
	server := echo(t)
	l, err := Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Serve(t.Context(), server)
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask sends a line and returns how long the answer took.
func ask(t *testing.T, conn net.Conn, patience time.Duration) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return 0, err
	}
	if err := conn.SetReadDeadline(began.Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Read(make([]byte, 6))
	return time.Since(began), err
}

func TestLink(t *testing.T) {
	t.Parallel()
	l := open(t)
	conn := dial(t, l)
	if _, err := ask(t, conn, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	l.Slow(50 * time.Millisecond)
	if took, err := ask(t, conn, 10*time.Second); err != nil || took < 100*time.Millisecond {
		t.Errorf("slow: took %v, %v", took, err)
	}
	l.Slow(0)
	for name, disturb := range map[string]func(){"frozen": l.Freeze, "muted": l.Mute} {
		disturb()
		if _, err := ask(t, conn, 50*time.Millisecond); err == nil {
			t.Errorf("%s: answered", name)
		}
		l.Restore()
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 6)); err != nil {
			t.Errorf("%s: nothing comes afterwards: %v", name, err)
		}
	}
	l.Cut()
	if _, err := ask(t, conn, 10*time.Second); err == nil {
		t.Error("cut: answered")
	}
	if conn, err := net.Dial("tcp", l.Address()); err == nil { // the link may end it before the dial returns
		if _, err := ask(t, conn, 10*time.Second); err == nil {
			t.Error("cut: a new connection is answered")
		}
		_ = conn.Close()
	}
	l.Restore()
	if _, err := ask(t, dial(t, l), 10*time.Second); err != nil {
		t.Errorf("restored: %v", err)
	}
}
