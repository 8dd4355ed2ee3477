package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/sql"
)

// relation is what the catalogue says about the configured table. Exported fields are the answer of catalogue.sql.
type relation struct {
	table   sql.Table // with its schema
	cluster string    // the system identifier of the server, empty if this role may not read it
	columns map[string]Column
	parts   *atomic.Pointer[timeRange] // the partitions that statements name; nil unless there are many by time
	seed    maphash.Seed
	types   string // the table and its columns' types; see prepared

	OID        uint32
	Schema     string
	Kind       string // pg_class.relkind
	Children   bool   // partitions, or tables that inherit from it
	Role       string
	Policies   bool          // row security may hide rows from this role
	ReadOnly   bool          // this role's transactions are read-only, though the server is not a standby
	Database   string        // the database's oid
	Encoding   string        // the database's
	Deadlock   time.Duration // how long a session waits for a lock before the server looks for a deadlock
	Columns    []Column      // in their order
	Indexes    []*index
	Doorbell   string      // the channel that the doorbell's trigger notifies of each insert; empty if none does
	Partitions partitioned // the table's own
}

func readCatalogue(ctx context.Context, pool *pgxpool.Pool, name sql.Table, names setting.Names) (*relation, error) {
	r := &relation{table: name, columns: map[string]Column{}, seed: maphash.MakeSeed()}
	by := &Table{pool: pool, mapping: &mapping{relation: r}}
	statement := sql.Text("catalogue.sql", map[string]string{"class": sql.DoorbellClass})
	rows, err := by.query(ctx, limits{once: true}, statement, []byte(name.Schema), []byte(name.Name))
	if err == nil && len(rows) > 0 {
		err = json.Unmarshal(rows[0][0], r)
	}
	if err != nil {
		return nil, fmt.Errorf("look up table: %w", err)
	} else if r.Kind != "r" && !r.partitioned() {
		to := pool.Config().ConnConfig
		return nil, problem(checkTable,
			"create it (`outbox-relay schema` prints a recommended one), or set "+names.Of("Table")+
				" to its name, with its schema if that is not in the role's search path",
			"table %s does not exist in database %s as role %s sees it, or is a view or a foreign table, which the "+
				"relay cannot mark", name, cmp.Or(to.Database, to.User), to.User)
	}
	r.table.Schema = r.Schema
	if err := r.readCluster(ctx, by); err != nil {
		return nil, fmt.Errorf("read the server's system identifier: %w", err)
	}
	r.types = fmt.Sprint(r.OID)
	for _, c := range r.Columns {
		c.Name = sql.Quote(c.Plain)
		r.columns[c.Plain] = c
		r.types += c.Plain + " " + c.Type + ","
	}
	for _, i := range r.Indexes {
		i.conjuncts = conjuncts(i.Predicate)
	}
	if r.Partitions.Column != "" && r.Partitions.Number >= manyPartitions {
		r.parts = &atomic.Pointer[timeRange]{}
		r.parts.Store(&everything)
	}
	return r, nil
}

// partitioned reports whether the table has partitions, which it may have none of yet.
func (r *relation) partitioned() bool { return r.Kind == "p" }

func grantRemedy(role string) string {
	return "let its owner run what `outbox-relay grants --role " + role + "` prints"
}
