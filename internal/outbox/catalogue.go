package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/sql"
)

// relation is what the catalogue says about the configured table.
type relation struct {
	oid       uint32
	database  string    // the database's oid
	cluster   string    // the system identifier of the server, empty if this role may not read it
	table     sql.Table // with its schema
	role      string
	canDelete bool
	kind      string // pg_class.relkind
	children  bool   // partitions, or tables that inherit from it
	unlogged  bool
	policies  bool          // row security may hide rows from this role
	writers   bool          // this role may select xmin
	encoding  string        // the database's
	deadlock  time.Duration // how long a session waits for a lock before the server looks for a deadlock
	readOnly  bool          // this role's transactions are read-only, though the server is not a standby
	columns   map[string]*Column
	named     []string // the columns in their order
	indexes   []index
	doorbell  doorbell
	// partitions is the number of the table's own partitions.
	partitions int
	parts      *partitions // nil unless there are many by time
	seed       maphash.Seed
	normal     map[string][]string // conditions to their parts in normal form; see [relation.normalise]
}

func readCatalogue(ctx context.Context, conn *pgx.Conn, name sql.Table, names setting.Names) (*relation, error) {
	r := &relation{table: name, columns: map[string]*Column{}, seed: maphash.MakeSeed()}
	var usage bool
	var deadlock int64
	var schema *string
	if name.Schema != "" {
		schema = &name.Schema
	}
	err := conn.QueryRow(ctx, sql.Text("catalogue_table.sql", nil), pgx.QueryExecModeExec, schema, name.Name).
		Scan(&r.oid, &r.table.Schema, &r.kind, &r.children, &usage, &r.canDelete, &r.role, &r.unlogged, &r.policies,
			&r.writers, &r.readOnly,
			&r.database, &r.encoding, &deadlock)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, problem(checkTable,
			"create it (`outbox-relay schema` prints a recommended one), or set "+names.Of("Table")+
				" to its name, with its schema if that is not in the role's search path",
			"table %s does not exist in database %s as role %s sees it", name,
			cmp.Or(conn.Config().Database, conn.Config().User), conn.Config().User)
	} else if err != nil {
		return nil, fmt.Errorf("look up table: %w", err)
	}
	r.deadlock = time.Duration(deadlock) * time.Millisecond
	if !usage {
		return nil, problem(checkRights, grantRemedy(r.role), "role %s has no right to use schema %s", r.role, r.table.Schema)
	}
	switch r.kind {
	case "v", "m":
		return nil, problem(checkTable, "set "+names.Of("Table")+" to the underlying table",
			"%s is a view; the relay must read and mark the table itself",
			name)
	case "f":
		return nil, problem(checkTable, "run the relay at the database that holds the table", "%s is a foreign table", name)
	}
	if err := r.readColumns(ctx, conn); err != nil {
		return nil, fmt.Errorf("read columns: %w", err)
	}
	if err := r.readIndexes(ctx, conn); err != nil {
		return nil, fmt.Errorf("read indexes: %w", err)
	}
	if err := r.readDoorbell(ctx, conn); err != nil {
		return nil, fmt.Errorf("look for the doorbell: %w", err)
	}
	if err := r.readCluster(ctx, conn); err != nil {
		return nil, fmt.Errorf("read the server's system identifier: %w", err)
	}
	return r, nil
}

func grantRemedy(role string) string {
	return "let its owner run what `outbox-relay grants --role " + role + "` prints"
}

func (r *relation) readColumns(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, sql.Text("catalogue_columns.sql", nil), pgx.QueryExecModeExec, r.oid)
	if err != nil {
		return err
	}
	var c Column
	_, err = pgx.ForEachRow(rows, []any{
		&c.Plain, &c.oid, &c.Type, &c.Width, &c.NotNull, &c.canSelect, &c.Writable, &c.Default, &c.comment,
	}, func() error {
		found := c
		found.Name = sql.Quote(c.Plain)
		r.columns[c.Plain], r.named = &found, append(r.named, c.Plain)
		return nil
	})
	return err
}
