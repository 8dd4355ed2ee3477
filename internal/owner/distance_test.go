package owner

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// distant is a connection to a server that is some way off.
type distant struct {
	net.Conn
	by time.Duration
}

func (c distant) Write(b []byte) (int, error) {
	<-time.After(c.by)
	return c.Conn.Write(b)
}

// With many groups, a turn's statements together may take longer than the time to live.
func TestManyGroupsAtADistance(t *testing.T) {
	t.Parallel()
	const groups, shards = 20, 4
	s := pgtest.New(t)
	o := &tested{Owner: New(), table: s.Name}
	o.Shards, o.TTL, o.Logger = shards, 2*time.Second, slog.New(slog.DiscardHandler)
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		return distant{conn, 30 * time.Millisecond}, err
	}
	o.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	var all []*Group
	for i := range groups {
		all = append(all, &Group{Name: fmt.Sprint(i), Column: fmt.Sprint("c", i), Mapping: "mapping"})
	}
	o.run(t, all...)
	for _, g := range all {
		await(t, g, g.Name, owns(shards))
	}
}
