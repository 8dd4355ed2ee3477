package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// database examines the server, the table and the replicas, and returns rows with the topics of the pending rows.
func (d *Doctor) database(ctx context.Context, r *Report) (*outbox.Table, []outbox.Sample) {
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	work, err := d.Pool.Acquire(ctx)
	if err != nil {
		r.add(areaDatabase, "", unreachable(d.Names.Of("Pool"), err))
		return nil, nil
	}
	defer work.Release()
	s, err := look(ctx, work.Conn())
	if err != nil {
		r.add(areaDatabase, "", unreachable(d.Names.Of("Pool"), err))
		return nil, nil
	}
	r.add(areaDatabase, "", s.findings(d.Names.Of("Pool"))...)
	r.add(areaDatabase, "", DatabaseSecurity(&work.Conn().Config().Config).findings(d.Names.Of("Pool"), s.encrypted)...)
	direct, err := d.Connect(ctx)
	if err != nil {
		r.add(areaDatabase, "", unreachable(d.Names.Of("Direct"), err))
	} else {
		defer func() { _ = direct.Close(ctx) }() // the connection holds nothing
		r.add(areaDatabase, "", d.direct(ctx, direct, s)...)
	}
	r.add(areaDatabase, "", transactions(ctx, work.Conn())...)
	r.add(areaDatabase, "", d.Certificates.findings(ofDatabase)...)
	table, rows := d.table(ctx, r)
	if table != nil && direct != nil {
		r.add(areaReplicas, "", d.replicas(ctx, direct, table)...)
	}
	return table, rows
}

// server is what one connection shows of the server at its other end.
type server struct {
	version           string
	number            int
	standby, readOnly bool
	clock             time.Time
	skew              time.Duration // difference between this clock and the server's; 0 if it is within the measuring error
	isolation, commit string
	statementTimeout  time.Duration
	sessions, slots   int64
	started           int64
	database, role    string
	encrypted         bool
}

func look(ctx context.Context, conn *pgx.Conn) (server, error) {
	var s server
	var clock, timeout int64
	asked := time.Now()
	err := conn.QueryRow(ctx, sql.Text("doctor_server.sql", nil), pgx.QueryExecModeExec).Scan(&s.version, &s.number, &s.standby, &s.readOnly,
		&clock,
		&s.isolation, &s.commit, &timeout, &s.sessions, &s.slots, &s.started, &s.database, &s.role)
	answered := time.Now()
	if err != nil {
		return s, fmt.Errorf("ask the server: %w", err)
	}
	s.statementTimeout = time.Duration(timeout) * time.Millisecond
	s.clock = time.UnixMicro(clock)
	switch {
	case s.clock.Before(asked):
		s.skew = asked.Sub(s.clock)
	case s.clock.After(answered):
		s.skew = answered.Sub(s.clock)
	}
	_, s.encrypted = conn.PgConn().Conn().(*tls.Conn)
	return s, nil
}

const oldest = 14_00_00 // server_version_num of the first version that works

func (s server) findings(variable string) []finding.Finding {
	found := []finding.Finding{ok("reach", variable, "PostgreSQL %s, database %s, as role %s", s.version, s.database, s.role)}
	if s.number < oldest {
		found = append(found, failure("version", "", "upgrade the server", "PostgreSQL %s is too old: the relay needs 14 or newer", s.version))
	}
	switch {
	case s.standby:
		found = append(found, failure("read_only", variable, "name the primary, or several hosts with target_session_attrs=read-write",
			"the server is a standby, where nothing can be marked as relayed"))
	case s.readOnly:
		found = append(found, failure("read_only", variable, "take away default_transaction_read_only from the role, the database or the URL",
			"transactions are read-only, so nothing can be marked as relayed"))
	}
	if skew := s.skew.Abs(); skew > 2*time.Second {
		found = append(found, warning("clock", "", "let both hosts follow the same time servers",
			"this host's clock and the database's differ by %v: latencies are measured wrongly, and certificates may seem expired",
			skew.Round(100*time.Millisecond)))
	}
	if s.isolation != "read committed" {
		found = append(found, warning("settings", "default_transaction_isolation", "set it to read committed for the relay's role",
			"transactions are %s by default: statements may fail that two replicas make at once", s.isolation))
	}
	if s.commit == "off" || s.commit == "local" {
		found = append(found, warning("settings", "synchronous_commit", "set it to on for the relay's role",
			"it is %s: a crash or failover of the server forgets marks, and their rows are published again", s.commit))
	}
	const least = 5 * time.Second
	if s.statementTimeout > 0 && s.statementTimeout < least {
		found = append(found, warning("settings", "statement_timeout", "set it to 30s or more for the relay's role",
			"it is %v: a write of many rows may be cut off again and again", s.statementTimeout))
	}
	const spare = 6
	if free := s.slots - s.sessions; free < spare {
		found = append(found, warning("connections", "", "raise max_connections, or put a pooler in front of applications that hold many",
			"%d of %d connections are left; a replica uses up to %d", max(free, 0), s.slots, spare))
	}
	return found
}

// direct examines the connection for ownership.
func (d *Doctor) direct(ctx context.Context, conn *pgx.Conn, work server) []finding.Finding {
	const check = "pooler"
	s, err := look(ctx, conn)
	if err != nil {
		return []finding.Finding{unreachable(d.Names.Of("Direct"), err)}
	}
	if s.started != work.started || s.database != work.database {
		return []finding.Finding{failure("reach", d.Names.Of("Direct"), "let both URLs lead to the same database of the same server",
			"it leads to another server or database than %s", d.Names.Of("Pool"))}
	}
	found := DatabaseSecurity(&conn.Config().Config).findings(d.Names.Of("Direct"), s.encrypted)
	if conn.Config().ConnString() == d.Pool.Config().ConnString() { // already reported for the other connection
		found = nil
	}
	err = owner.CheckPooler(ctx, conn, d.Connect)
	switch {
	case errors.Is(err, owner.ErrPooler):
		return append(found, failure(check, d.Names.Of("Direct"),
			"set "+d.Names.Of("Direct")+" to the PostgreSQL server itself; "+d.Names.Of("Pool")+" may stay as it is",
			"the connection for ownership goes through a transaction pooler, where session locks and LISTEN do not work"))
	case err != nil:
		return append(found, unreachable(d.Names.Of("Direct"), err))
	}
	return append(found, ok(check, d.Names.Of("Direct"), "the connection for ownership keeps its session"))
}

// transactions looks for whatever keeps dead rows from being removed.
func transactions(ctx context.Context, conn *pgx.Conn) []finding.Finding {
	const (
		check = "transactions"
		long  = 5 * 60
		far   = 1_000_000
	)
	var open, behind, prepared, slots int64
	err := conn.QueryRow(ctx, sql.Text("doctor_transactions.sql", nil), pgx.QueryExecModeExec).Scan(&open, &behind, &prepared, &slots)
	if err != nil {
		return []finding.Finding{warning(check, "", "look at the server's log for the same message", "cannot be examined: %s", errtext.Line(err))}
	}
	const because = ": the dead rows that each relayed row leaves cannot be removed meanwhile, and reads become slower"
	var found []finding.Finding
	if open > long || behind > far {
		found = append(found, warning(check, "", "find it in pg_stat_activity by xact_start and backend_xmin, and end it; "+
			"idle_in_transaction_session_timeout keeps it from coming back",
			"a transaction has been open for long (the oldest that this role may see for %v, the oldest snapshot is %d "+
				"transactions behind)%s", time.Duration(open)*time.Second, behind, because))
	}
	if prepared > long {
		found = append(found, warning(check, "", "commit or roll back what pg_prepared_xacts shows", "a prepared transaction has waited for %v%s",
			time.Duration(prepared)*time.Second, because))
	}
	if slots > far {
		found = append(found, warning(check, "", "bring its reader back, or drop the slot that pg_replication_slots shows",
			"a replication slot without a reader is %d transactions behind%s", slots, because))
	}
	if found == nil {
		found = append(found, ok(check, "", "none has been open for long"))
	}
	return found
}
