package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
)

const (
	connectTimeout = 10 * time.Second
	hostTimeout    = 2 * time.Second  // for each of several hosts, so that a dead one leaves time for the next
	workIdle       = 10 * time.Second // idle time after which a connection is closed
	workEach       = 3                // connections per destination, for which two reads and two writes may wait
	workOther      = 1                // for gauges and looks at the catalogue
	mostPatience   = 5 * time.Second  // longest wait for a connection that does not answer
)

// NewPool makes a pool for a relay of this configuration. Unlike a pool of pgxpool.New, it gives up connections that a
// firewall has forgotten, and after a failover it uses connections only if they lead to the server that holds the
// ownership of the rows. It has as many connections as the relay needs, closes idle ones, and reads times as UTC. The
// returned function closes the pool.
func (c *Config) NewPool(ctx context.Context, to *pgxpool.Config) (pool *pgxpool.Pool, closePool func(), err error) {
	to = to.Copy()
	silence := 2 * c.patience()
	c.witness = &owner.Witness{}
	c.connect = connector(cmp.Or(c.Direct, to), silence, c.witness)
	prepare(to.ConnConfig, silence, c.witness)
	// An idle owner uses its connection once a second, so only a connection that is idle for longer is asked. One that
	// does not answer shows that the others are lost, too.
	to.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > workIdle/2 }
	if c.Direct == nil { // otherwise a pooler is on the way
		to.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout) // the pool sets no limit
			defer cancel()
			return pgsession.Own(ctx, conn)
		}
	}
	to.MinConns, to.MaxConns = 0, int32(workOther+workEach*len(c.Destinations))
	// Otherwise the connection for a look at the catalogue once a minute, all that a standby reads, stays up to 20 s.
	to.MaxConnIdleTime, to.HealthCheckPeriod = workIdle, workIdle/5
	if c.Direct != nil || several(to.ConnConfig) {
		witness := c.witness
		to.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			err := witness.Check(ctx, conn)
			return err == nil, err
		}
	}
	if pool, err = pgxpool.NewWithConfig(ctx, to); err != nil {
		return nil, nil, fmt.Errorf("make a pool: %w", err)
	}
	c.silent = pool.Reset
	return pool, func() { closeSoon(pool) }, nil
}

// closePatience is how long the connections of a closed pool have to end politely. A connection that was cut off in the
// middle of a statement waits for what the server may still send, at most 15 seconds; nobody waits for that.
const closePatience = time.Second

// Connect opens a connection in the same way as for ownership. It does not go through a pooler. NewPool must have been
// called before.
func (c *Config) Connect(ctx context.Context) (*pgx.Conn, error) { return c.connect(ctx) }

// prepare sets what all connections of a relay have in common. They notice when nothing has answered for a while.
func prepare(c *pgx.ConnConfig, silence time.Duration, witness *owner.Witness) {
	dialer := outbox.Dialer(silence)
	c.DialFunc = dialer.DialContext
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout, dialer.Timeout = connectTimeout, hostTimeout // a host's name may have dead addresses, too
		if several(c) {
			c.ConnectTimeout = hostTimeout
		}
	}
	// With several hosts, connect to the one that can be written to, unless target_session_attrs says otherwise.
	if several(c) {
		suits := c.ValidateConnect
		if suits == nil {
			suits = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}
		c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			if err := suits(ctx, conn); err != nil {
				return err
			}
			return witness.Newest(ctx, conn)
		}
	}
	// Statements are sent unnamed, so that a transaction pooler on the way causes no errors.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	pgsession.Startup(c.RuntimeParams)
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "outbox-relay")
}

// connector returns a function that connects as the pool would, with a connection of its own that notices after a while
// that nothing answers. The ownership and the listener have such connections: a session's locks and notifications do
// not survive a transaction pooler.
func connector(pool *pgxpool.Config, silence time.Duration, witness *owner.Witness) func(context.Context) (
	*pgx.Conn, error,
) {
	pool = pool.Copy()
	prepare(pool.ConnConfig, silence, witness)
	return func(ctx context.Context) (*pgx.Conn, error) {
		c := pool.ConnConfig.Copy()
		if pool.BeforeConnect != nil {
			if err := pool.BeforeConnect(ctx, c); err != nil {
				return nil, err
			}
		}
		conn, err := pgx.ConnectConfig(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := pgsession.Own(ctx, conn); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		return conn, nil
	}
}

// several reports whether a configuration leads to several addresses. Another way to the same host, without TLS, is not
// another address.
func several(c *pgx.ConnConfig) bool {
	return slices.ContainsFunc(c.Fallbacks, func(other *pgconn.FallbackConfig) bool {
		return other.Host != c.Host || other.Port != c.Port
	})
}

// closeSoon closes a pool, and does not wait longer than closePatience. What takes longer goes on in its goroutine.
func closeSoon(pool *pgxpool.Pool) {
	done, closed := context.WithTimeout(context.Background(), closePatience)
	go func() { pool.Close(); closed() }()
	<-done.Done()
}
