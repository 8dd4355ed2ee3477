package relay

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

const (
	connectTimeout = 10 * time.Second
	hostTimeout    = 2 * time.Second  // for each of several, so that a dead one leaves time for the next
	workIdle       = 10 * time.Second // then a connection that is not used is closed
	workEach       = 3                // connections of a destination: it reads, and writes twice at a time
	workOther      = 1                // for gauges and looks at the catalogue
	mostPatience   = 5 * time.Second  // with a connection that does not answer, where it may be silent for longer
)

// A poolGuard finds connections of a pool that are of no use: those that lead nowhere any more, and those to another server than the one that
// says who owns the rows.
type poolGuard struct {
	links   *outbox.Links
	witness *owner.Witness                           // nil for one host
	connect func(context.Context) (*pgx.Conn, error) // not through a pooler
}

// NewPool makes a pool for a relay of this configuration. Beyond what a pool of pgxpool.New does, its connections are given up when a firewall
// has forgotten them, and after a failover they are used only if they lead to the server that says who owns the rows. It holds as many
// connections as the relay needs, closes idle ones, and reads times as UTC. The function that it returns closes the pool.
func (c *Config) NewPool(ctx context.Context, to *pgxpool.Config) (pool *pgxpool.Pool, closePool func(), err error) {
	filled := *c
	filled.fillIn()
	to = to.Copy()
	links := &outbox.Links{Patience: filled.patience(), Logger: filled.Logger, Pooler: c.Direct != nil}
	c.guard = &poolGuard{links: links}
	prepare(to.ConnConfig)
	to.ConnConfig.DialFunc = links.Dial
	if !links.Pooler {
		to.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	}
	links.Connect = connector(to, 2*links.Patience)
	c.guard.connect = links.Connect
	if c.Direct != nil {
		c.guard.connect = connector(c.Direct, 2*links.Patience)
	}
	// An idle owner uses its connection once a second. Whether one is half open, the links find out.
	to.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > workIdle/2 }
	to.AfterConnect = links.Note
	to.MinConns, to.MaxConns = 0, int32(workOther+workEach*len(c.Destinations)+c.SpareConnections)
	to.MaxConnIdleTime, to.HealthCheckPeriod = workIdle, workIdle
	if links.Pooler || addressesOf(to.ConnConfig) > 1 {
		c.guard.witness = &owner.Witness{}
		to.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			err := c.guard.witness.Check(ctx, conn)
			return err == nil, err
		}
	}
	if pool, err = pgxpool.NewWithConfig(ctx, to); err != nil {
		return nil, nil, fmt.Errorf("make a pool: %w", err)
	}
	return pool, func() { links.ClosePool(pool) }, nil
}

// Connect opens a connection like that for ownership, after NewPool. It does not go through a pooler.
func (c *Config) Connect(ctx context.Context) (*pgx.Conn, error) { return c.guard.connect(ctx) }

// prepare sets what every connection of a relay has in common.
func prepare(c *pgx.ConnConfig) {
	several := addressesOf(c) > 1
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
		if several {
			c.ConnectTimeout = hostTimeout
		}
	}
	// Of several hosts the one that can be written to, unless target_session_attrs says more.
	if c.ValidateConnect == nil && several {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	// Statements are sent unnamed, so that a transaction pooler in between does no harm.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	// Times without a zone are UTC, whatever the role's settings say. PgBouncer lets these two through.
	c.RuntimeParams["timezone"] = "UTC"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "outbox-relay"
	}
}

// connector returns what connects as a pool would, with a connection of its own that notices after a while that nobody answers.
func connector(pool *pgxpool.Config, silence time.Duration) func(context.Context) (*pgx.Conn, error) {
	pool = pool.Copy()
	prepare(pool.ConnConfig)
	pool.ConnConfig.DialFunc = outbox.Dialer(silence).DialContext
	return func(ctx context.Context) (*pgx.Conn, error) {
		c := pool.ConnConfig.Copy()
		if pool.BeforeConnect != nil {
			if err := pool.BeforeConnect(ctx, c); err != nil {
				return nil, err
			}
		}
		return pgx.ConnectConfig(ctx, c)
	}
}

// addressesOf returns to how many addresses a configuration leads.
func addressesOf(c *pgx.ConnConfig) int {
	all := map[string]bool{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))): true}
	for _, fallback := range c.Fallbacks { // other hosts, or the same without TLS
		all[net.JoinHostPort(fallback.Host, strconv.Itoa(int(fallback.Port)))] = true
	}
	return len(all)
}
