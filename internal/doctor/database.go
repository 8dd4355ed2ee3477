package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// database examines the server, the table and the replicas, and returns rows with the topics of the pending rows.
func (d *Doctor) database(ctx context.Context, r *Report) (*outbox.Table, []outbox.Row) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pool := d.Outbox.Names.Of("Pool")
	var s server
	work, err := d.Pool.Acquire(ctx)
	if err == nil {
		defer work.Release()
		s, err = look(ctx, work.Conn())
	}
	if err != nil {
		r.add(areaDatabase, "", unreachable(pool, err))
		return nil, nil
	}
	r.add(areaDatabase, "", s.findings(pool)...)
	direct, err := d.Connect(ctx)
	if err != nil {
		r.add(areaDatabase, "", unreachable(d.Outbox.Names.Of("Direct"), err))
	} else {
		defer func() { _ = direct.Close(ctx) }() // the connection holds nothing
		r.add(areaDatabase, "", d.direct(ctx, direct, s)...)
	}
	r.add(areaDatabase, "", transactions(ctx, work.Conn())...)
	table, rows := d.table(ctx, r)
	if table != nil && direct != nil {
		r.add(areaReplicas, "", d.replicas(ctx, direct, table)...)
	}
	return table, rows
}

// server is what one connection shows of the server at its other end.
type server struct {
	version         string
	number          int // server_version_num
	readOnly        bool
	commit          string // synchronous_commit
	sessions, slots int64  // of clients: open now, and at most
	started         int64  // with the database's name it tells one server from another
	database, role  string
	protected       bool // against whoever is on the way
}

// look asks the server in one statement, without a transaction.
func look(ctx context.Context, conn *pgx.Conn) (server, error) {
	var s server
	row := conn.QueryRow(ctx, sql.Text("doctor_server.sql", nil), pgx.QueryExecModeExec)
	err := row.Scan(&s.version, &s.number, &s.readOnly, &s.commit, &s.sessions, &s.slots,
		&s.started, &s.database, &s.role)
	if err != nil {
		err = fmt.Errorf("ask the server: %w", err)
	}
	s.protected = protected(conn.PgConn().Conn().RemoteAddr(), conn.Config().TLSConfig)
	return s, err
}

// protected reports whether a connection stays on this host or verifies the server, as c demands.
func protected(to net.Addr, c *tls.Config) bool {
	remote, _ := to.(*net.TCPAddr)
	verified := c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil) // the latter is pgx's verify-ca
	return remote == nil || remote.IP.IsLoopback() || verified
}

func (s server) encryption() finding.Answer {
	return finding.WarnIf(!s.protected, "the server's certificate is not verified, or the connection not even "+
		"encrypted: whoever is on the way can be taken for the database",
		"add sslmode=verify-full and sslrootcert=FILE to it")
}

const oldest = 14_00_00 // server_version_num of the first version that works

// findings examines the server. variable is the setting that holds the connection's URL.
func (s server) findings(variable string) (f finding.List) {
	const spare = 6 // connections of a replica
	free := s.slots - s.sessions
	f.Well("reach", variable, fmt.Sprintf("PostgreSQL %s, database %s, as role %s", s.version, s.database, s.role))
	f.Add("encryption", variable, s.encryption())
	f.Add("version", "", finding.FailIf(s.number < oldest,
		"PostgreSQL "+s.version+" is too old: the relay needs 14 or newer", "upgrade the server"))
	f.Add("read_only", variable, finding.FailIf(s.readOnly,
		"transactions are read-only, as on a standby, so nothing can be marked as relayed",
		"name the primary, or several hosts with target_session_attrs=read-write; or take away "+
			"default_transaction_read_only from the role, the database or the URL"))
	// remote_write, on and remote_apply all wait until the mark is at least on the server's own disk.
	f.Add("settings", "synchronous_commit", finding.WarnIf(s.commit == "off" || s.commit == "local",
		"it is "+s.commit+": a crash or failover of the server forgets marks, and their rows are published again",
		"set it to on for the relay's role"))
	// A pooler that is asked here shows the server's numbers too, since it passes the question on.
	f.Add("connections", "", finding.WarnIf(free < spare,
		fmt.Sprintf("%d of %d connections are left; a replica uses up to %d", max(free, 0), s.slots, spare),
		"raise max_connections, or put a pooler in front of applications that hold many"))
	return f
}

// direct examines the connection for ownership. work is the server of the other connection: locks that are taken on one
// server say nothing about rows that are marked on another.
func (d *Doctor) direct(ctx context.Context, conn *pgx.Conn, work server) (f finding.List) {
	s, err := look(ctx, conn)
	if err != nil {
		return finding.List{unreachable(d.Outbox.Names.Of("Direct"), err)}
	}
	pool, direct := d.Outbox.Names.Of("Pool"), d.Outbox.Names.Of("Direct")
	if s.started != work.started || s.database != work.database {
		f.Fail("reach", direct, "it leads to another server or database than "+pool, "name the same one in both")
		return f
	}
	err = owner.CheckPooler(ctx, conn, d.Connect)
	if err != nil && !errors.Is(err, owner.ErrPooler) {
		return append(f, unreachable(direct, err))
	}
	if work.protected { // otherwise told of the other connection
		f.Add("encryption", direct, s.encryption())
	}
	f.Add("pooler", direct,
		finding.FailIf(err != nil, "the connection for ownership goes through a transaction pooler, where session "+
			"locks and LISTEN do not work", "set "+direct+" to the PostgreSQL server itself; "+pool+" may stay"),
		finding.OKIf(true, "the connection for ownership keeps its session"))
	return f
}

// transactions looks for whatever keeps dead rows from being removed: each mark leaves a dead row, in the table and in
// the index of pending rows, through which every poll passes until vacuum has removed it.
func transactions(ctx context.Context, conn *pgx.Conn) (f finding.List) {
	const (
		check = "transactions"
		long  = 5 * 60    // seconds; no transaction of an application should take as long
		far   = 1_000_000 // transactions; at 1,000 a second a quarter of an hour
	)
	var open, behind, prepared, slots int64
	row := conn.QueryRow(ctx, sql.Text("doctor_transactions.sql", nil), pgx.QueryExecModeExec)
	if err := row.Scan(&open, &behind, &prepared, &slots); err != nil {
		f.Warn(check, "", "cannot be examined: "+errtext.Line(err), "look at the server's log for the same message")
		return f
	}
	f.Add(check, "",
		finding.WarnIf(max(open, prepared) > long || max(behind, slots) > far,
			fmt.Sprintf("the dead rows that each relayed row leaves cannot be removed, and reads become slower: the "+
				"oldest transaction that this role may see has been open for %v, a prepared one for %v; the oldest "+
				"snapshot is %d transactions behind, a replication slot without a reader %d",
				time.Duration(open)*time.Second, time.Duration(prepared)*time.Second, behind, slots),
			"end what pg_stat_activity (xact_start, backend_xmin), pg_prepared_xacts or pg_replication_slots shows"),
		finding.OKIf(true, "none has been open for long"))
	return f
}
