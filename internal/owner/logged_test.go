package owner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// logged lets a replica try for some minutes to connect, and returns the number of attempts and of log lines that say
// that it owns nothing.
func logged(t *testing.T, connect func(ctx context.Context, attempt int) error) (attempts, lines int) {
	t.Helper()
	var log bytes.Buffer
	o := New()
	o.Shards, o.TTL, o.Logger = 16, 10*time.Second, slog.New(slog.NewTextHandler(&log, nil))
	o.Connect = func(ctx context.Context) (*pgx.Conn, error) {
		attempts++
		return nil, connect(ctx, attempts)
	}
	o.Open("t", []*Group{{Mapping: "mapping"}})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	o.Run(ctx)
	return attempts, strings.Count(log.String(), "cannot own shards")
}

// An outage is logged once, even if a proxy accepts and closes each connection, so that each error names another port.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts, lines := logged(t, func(_ context.Context, attempt int) error {
			return &net.OpError{
				Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 40000 + attempt}, Addr: &net.TCPAddr{Port: 5432},
				Err: errors.New("reset"),
			}
		})
		if lines != 1 || attempts < 20 {
			t.Errorf("logged %d times after %d attempts", lines, attempts)
		}
	})
}

// An outage in which each attempt takes its whole time is logged once too: the server is frozen.
func TestFrozenServerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts, lines := logged(t, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			<-time.After(30 * time.Millisecond) // the delay until that is noticed
			return ctx.Err()
		})
		if lines != 1 || attempts < 20 {
			t.Errorf("logged %d times after %d attempts", lines, attempts)
		}
	})
}
