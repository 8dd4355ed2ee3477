package errtext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestLine(t *testing.T) {
	t.Parallel()
	reset := func(port int) error {
		return &net.OpError{
			Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 5432},
			Err: errors.New("reset"),
		}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{io.EOF, "EOF"},
		{
			errors.New("failed to connect to `user=u`:\n\t127.0.0.1:1: refused\n\t127.0.0.1:1: refused\n\t[::1]:1: refused"),
			"failed to connect to `user=u`: 127.0.0.1:1: refused; [::1]:1: refused",
		},
		{fmt.Errorf("connect:\n%w", errors.Join(reset(40001), reset(40002))), "connect: read tcp :5432: reset"},
		{
			&net.DNSError{
				Name: "db", Server: "10.0.0.10:53", Err: "read udp 10.1.1.1:40001->10.0.0.10:53: i/o timeout",
				IsTimeout: true,
			},
			"lookup db on 10.0.0.10:53: read udp 10.0.0.10:53: i/o timeout",
		},
		{&net.DNSError{Name: "db", Err: "no such host", IsNotFound: true}, "lookup db: no such host"},
		{
			fmt.Errorf("settle rows: %w",
				&pgconn.PgError{Severity: "ERROR", Code: "55000", Message: "no", Detail: "Why.", Hint: "Do."}),
			"settle rows: ERROR: no (SQLSTATE 55000); detail: Why.; hint: Do.",
		},
		{
			&quoting{&pgconn.PgError{Severity: "ERROR", Code: "55000", Message: "no", Hint: "Do."}},
			"cannot write: ERROR: no (SQLSTATE 55000); hint: Do.",
		},
		{
			&pgconn.PgError{Severity: "ERROR", Code: "23505", Message: "no", Detail: "Key (card)=(4111) exists."},
			"ERROR: no (SQLSTATE 23505)",
		},
		{&pgconn.PgError{Severity: "ERROR", Code: "22P02", Message: "no", Hint: "4111"}, "ERROR: no (SQLSTATE 22P02)"},
		{
			&pgconn.PgError{Severity: "ERROR", Code: "55000", Message: "no", Detail: "4111", Where: "PL/pgSQL function f()"},
			"ERROR: no (SQLSTATE 55000)",
		},
	} {
		if got := Line(c.err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// quoting is an error whose text holds that of its cause, details included.
type quoting struct{ cause error }

func (e *quoting) Error() string { return "cannot write: " + Line(e.cause) }
func (e *quoting) Unwrap() error { return e.cause }

// A proxy without a server accepts a connection and closes it at once. The library tries with and without TLS, each
// time from a new port.
func TestLineOfConnectionsThatAreReset(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4))
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}()
	texts := map[string]bool{}
	for range 5 {
		_, err := pgx.Connect(context.WithoutCancel(t.Context()), "postgres://u@"+listener.Addr().String()+"/db")
		if err == nil {
			t.Fatal("connected")
		}
		line := Line(fmt.Errorf("connect to database: %w", err))
		if strings.Contains(line, "\n") {
			t.Errorf("several lines: %s", line)
		}
		texts[line] = true
	}
	if len(texts) != 1 {
		t.Errorf("texts differ: %v", texts)
	}
}
