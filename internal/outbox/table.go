package outbox

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Table is the outbox as [Open] found it. Its methods are safe for concurrent use. They block, and each takes a
// connection of the pool while it runs.
type Table struct {
	pool   *pgxpool.Pool
	common *mapping // what all destinations share
	*mapping
	source string // [publisher.Message.Source] of every row
	prefix string // prefix of a message's dedup id, for ids that are not globally unique
	idOID  uint32 // type of the elements of an array of ids
	rowOID uint32 // type of the elements of an array of identities
	maxRow int64  // limit of the bytes of a row that are read

	denied map[string]*SetupError // destinations whose statements the server does not accept, by name

	description
	reads
}

// Open looks up the table and the meaning of its columns. A problem is returned as a [*SetupError]. If the problem is
// in a column of one of several views, only [Table.For] returns it, since the other destinations can run. Statements
// stay prepared on connections with a session of the relay's own ([pgsession.Own]). That is not possible through a
// pooler that assigns the server's connections for one transaction each.
func Open(ctx context.Context, pool *pgxpool.Pool, config Config) (*Table, error) {
	t, problems, err := lookUp(ctx, pool, config)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return nil, problems[0]
	case config.Looks: // a command sends each statement once, and needs the rights for that statement only
		return t, nil
	case t.relation.ReadOnly: // before publishing anything that could not be marked
		return nil, problem(checkRights, "take away default_transaction_read_only from the role, the database or "+
			"the URL; a service that has set it for want of space takes it away itself when there is some",
			"transactions are read-only for role %s, so nothing can be marked as relayed", t.relation.Role)
	}
	if err := t.checkAccess(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, rangePatience)
	defer cancel()
	if _, err := t.followPartitions(limited, t.relation); server(err).Code == "" && err != nil {
		return nil, err
	} // if the server has no answer in time, statements look at all partitions
	return t, nil
}

// lookUp returns the table with all of its rows, in the state that the columns of the table hold, or in a destination's
// state if no destination can use these columns. If no destination can use the table, it returns the problems.
func lookUp(ctx context.Context, pool *pgxpool.Pool, config Config) (*Table, []*SetupError, error) {
	r, err := readCatalogue(ctx, pool, config.Table, config.Names)
	if err != nil {
		return nil, nil, err
	}
	t := &Table{pool: pool, common: r.understand(config), denied: map[string]*SetupError{}}
	views := slices.Clone(config.views())
	slices.SortStableFunc(views, func(a, b View) int { return cmp.Compare(len(a.Columns), len(b.Columns)) })
	var problems []*SetupError
	for _, v := range views {
		v.Filter, v.FailedOf, v.RelayedOf = Filter{}, nil, nil
		m := t.see(v)
		if len(m.problems) == 0 {
			return t.with(m), nil, nil
		} else if problems == nil {
			problems = m.problems
		}
	}
	return nil, problems, nil
}

// Current reports whether the table and the meaning of its columns are still as [Open] found them. Statements may still
// work if they are not: a new column may have a meaning, or an index may have been added. doorbell reports whether the
// doorbell's trigger notifies [Config.Channel] of each insert while a relay wants that.
func (t *Table) Current(ctx context.Context) (current, doorbell bool, err error) {
	found, problems, err := lookUp(ctx, t.pool, t.config)
	if err != nil || len(problems) > 0 { // which [Open] reports
		return false, false, err
	}
	if len(t.denied) > 0 { // what cannot be written shows when it is to be written
		err = found.checkAccess(ctx)
		if _, denied := errors.AsType[*SetupError](err); err != nil && !denied {
			return false, false, err
		}
	}
	same := reflect.DeepEqual(found.meaning(), t.meaning())
	grown, err := t.followPartitions(ctx, found.relation)
	return same && !grown, t.config.Channel != "" && found.relation.Doorbell == t.config.Channel, err
}

// meaning is how the table is understood, by all destinations.
func (t *Table) meaning() []any {
	all := []any{t.relation.OID, t.relation.table, t.relation.Policies, t.Strangers()}
	for _, v := range t.config.views() {
		m := t.see(v)
		m.relation, m.config, m.view = nil, Config{}, View{}
		all = append(all, m)
	}
	return all
}

// with returns the same table with the mapping of a view.
func (t *Table) with(m *mapping) *Table {
	seen := &Table{
		pool: t.pool, common: t.common, denied: t.denied, mapping: m,
		idOID: m.ID.OID, maxRow: cmp.Or(m.config.MaxRow, DefaultMaxRow),
	}
	if m.ID.OID == pgtype.VarcharOID {
		seen.idOID = pgtype.TextOID
	}
	seen.rowOID = seen.idOID
	if m.compound() {
		seen.rowOID = pgtype.TextOID
	}
	origin, name := m.relation.origin(), m.relation.table.String()
	seen.source = "/" + origin + "/" + url.PathEscape(name)
	if m.ID.OID != pgtype.UUIDOID {
		seen.prefix = origin + "/" + name + "/"
	}
	seen.description = seen.describe()
	seen.prepareReads()
	return seen
}

// Name returns schema.table, by which all replicas identify the outbox.
func (t *Table) Name() string { return t.relation.table.String() }

// Quoted returns the name for use in a statement.
func (t *Table) Quoted() string { return t.relation.table.Quoted() }

// Ordinal reports whether order values are numbers or times and never NULL, so that [Position.Ordinal] can be compared.
// In a table whose order may be NULL, rows without an order value come after all others, and each first page of a tail
// begins at the very beginning.
func (t *Table) Ordinal() bool {
	return orderTypes[t.mapping.Order.OID] != "" && t.mapping.Order.NotNull
}

// Timed reports whether order values are times of the database's clock. If not, they are numbers without a relation to
// time.
func (t *Table) Timed() bool {
	return slices.Contains(timeTypes, t.mapping.Order.OID)
}

// Extra returns the SQL expressions for the additional texts that each row carries, in the order of [Config.Extra].
func (t *Table) Extra() []string { return t.mapping.extra }

// Ranked reports whether the table has a priority, so that a new row may come before older ones.
func (t *Table) Ranked() bool { return t.mapping.Rank.Has() }

// Delays reports whether rows that become due later than they are inserted are found by the reads in table order,
// because there is no index of due times ([Table.ReadsDue]).
func (t *Table) Delays() bool { return t.mapping.Available.Has() && !t.mapping.dueIndex }

// KeepsFailures reports whether a row can be marked as failed.
func (t *Table) KeepsFailures() bool { return t.mapping.Failed.Has() }

// KeepsErrors reports whether the table keeps the error for which a row was refused.
func (t *Table) KeepsErrors() bool { return t.mapping.LastError.Has() }

// KeepsAttempts reports whether attempts are counted in the table.
func (t *Table) KeepsAttempts() bool { return t.mapping.Attempt.Has() }
