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

// An outage is told once, also where a proxy takes each connection and ends it, whose error names another port each time.
func TestOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		port := 40000
		o := &Owner{Table: "t", Shards: 16, TTL: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)), Connect: func(context.Context) (*pgx.Conn, error) {
			port++
			return nil, &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 5432}, Err: errors.New("reset")}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o.Run(ctx)
		if told := strings.Count(log.String(), "nothing is owned"); told != 1 || port < 40010 {
			t.Errorf("told %d times after %d attempts:\n%s", told, port-40000, log.String())
		}
	})
}
