package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/doctor"
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

// prepare sets what every connection of the relay has in common.
func prepare(c *pgx.ConnConfig, certificates *doctor.Certificates, silence time.Duration) {
	c.DialFunc = outbox.Dialer(silence).DialContext
	certificates.NoteDatabase(c.TLSConfig)
	for _, other := range c.Fallbacks {
		certificates.NoteDatabase(other.TLSConfig)
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
		if len(hosts(c)) > 1 {
			c.ConnectTimeout = hostTimeout
		}
	}
	// Of several hosts the one that can be written to, unless target_session_attrs says more.
	if c.ValidateConnect == nil && len(hosts(c)) > 1 {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	// Statements are sent unnamed, so that a transaction pooler in between does no harm.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	// Times without a zone are UTC, whatever the role's settings say. PgBouncer lets these two through.
	c.RuntimeParams["timezone"] = "UTC"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = clientName
	}
}

// refresh takes user and password as they are now.
func refresh(c *pgx.ConnConfig, url config.Secret) error {
	text, err := url.Read()
	if err != nil {
		return err
	}
	if err := config.CheckDatabase(text); err != nil {
		return fmt.Errorf("the database URL has changed and %w", err)
	}
	now, err := pgx.ParseConfig(text)
	if err != nil {
		return errors.New("the database URL has changed and cannot be used")
	}
	c.User, c.Password = now.User, now.Password
	return nil
}

// errURL is about what the configuration's own check has let through. The library's text is not shown: it
// masks passwords only as well as it can.
func errURL(variable string) error {
	return errors.New(variable + " has a parameter that the relay cannot use: check the names and values behind the question mark")
}

// newPool makes the pool for reading and settling. It connects when it is used and closes what is idle.
// With a witness it uses only connections to the server that the witness tells of.
func newPool(ctx context.Context, d config.Database, others, destinations int, certificates *doctor.Certificates, witness *owner.Witness,
	links *outbox.Links) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(d.URL.Loaded())
	if err != nil {
		return nil, errURL("OUTBOX_DATABASE_URL")
	}
	prepare(c.ConnConfig, certificates, 2*links.Patience)
	c.ConnConfig.DialFunc = links.Dial
	links.Connect = func(ctx context.Context) (*pgx.Conn, error) {
		c := c.ConnConfig.Copy()
		if err := refresh(c, d.URL); err != nil {
			return nil, err
		}
		return pgx.ConnectConfig(ctx, c)
	}
	if d.DirectURL.Loaded() == d.URL.Loaded() { // else there may be a transaction pooler in between
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	} else {
		links.Pooler = true
	}
	// An idle owner uses its connection once a second. Whether one is half open, the links find out.
	c.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > workIdle/2 }
	c.AfterConnect = links.Note
	c.MinConns, c.MaxConns, c.MaxConnIdleTime, c.HealthCheckPeriod = 0, int32(others+workEach*destinations), workIdle, workIdle
	c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { return refresh(c, d.URL) }
	if witness != nil {
		c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			err := witness.Check(ctx, conn)
			return err == nil, err
		}
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// newWitness returns what the pool needs to check its connections, nil when there is but one host to connect to.
func newWitness(d config.Database) (*owner.Witness, error) {
	work, err := pgx.ParseConfig(d.URL.Loaded())
	if err != nil {
		return nil, errURL("OUTBOX_DATABASE_URL")
	}
	direct, err := pgx.ParseConfig(d.DirectURL.Loaded())
	if err != nil {
		return nil, errURL("OUTBOX_DATABASE_DIRECT_URL")
	}
	all := hosts(work)
	maps.Copy(all, hosts(direct))
	if len(all) == 1 {
		return nil, nil
	}
	return &owner.Witness{}, nil
}

// hosts returns the addresses that a configuration leads to.
func hosts(c *pgx.ConnConfig) map[string]bool {
	all := map[string]bool{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))): true}
	for _, fallback := range c.Fallbacks { // other hosts, or the same without TLS
		all[net.JoinHostPort(fallback.Host, strconv.Itoa(int(fallback.Port)))] = true
	}
	return all
}

// newConnect returns how to open a direct connection.
func newConnect(d config.Database, certificates *doctor.Certificates, silence time.Duration) (func(context.Context) (*pgx.Conn, error), error) {
	c, err := pgx.ParseConfig(d.DirectURL.Loaded())
	if err != nil {
		return nil, errURL("OUTBOX_DATABASE_DIRECT_URL")
	}
	prepare(c, certificates, silence)
	return func(ctx context.Context) (*pgx.Conn, error) {
		c := c.Copy()
		if err := refresh(c, d.DirectURL); err != nil {
			return nil, err
		}
		return pgx.ConnectConfig(ctx, c)
	}, nil
}
