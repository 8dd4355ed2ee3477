package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Examine examines the table as [Open] does and reports every problem, not just the first, and whatever makes relaying
// slow or less safe. channel is the channel on which the relay listens. Examine changes nothing. The returned table is
// nil if it cannot be used.
func Examine(
	ctx context.Context, pool *pgxpool.Pool, config Config, channel string,
) (t *Table, found []finding.Finding, err error) {
	problems, err := lookUp(ctx, pool, config, func(conn *pgx.Conn, opened *Table) error {
		t = opened
		e := t.examination()
		defer func() { found = e.found }()
		e.storage()
		e.encoding()
		e.columns()
		e.indexes()
		e.ordered()
		for _, ask := range []func(context.Context, *pgx.Conn) error{e.sequence, e.vacuum, e.wallTime} {
			if err := ask(ctx, conn); err != nil {
				return err
			}
		}
		e.doorbell(channel)
		problem, err := t.checkAccess(ctx, conn)
		if err != nil {
			return err
		}
		if problem == nil {
			for _, v := range config.Views {
				e.found = append(e.found, t.viewFindings(v)...)
			}
		} else if e.found = append(e.found, findings([]*SetupError{problem})...); problem.denies() {
			t = nil // nothing else can be asked
		}
		e.txid()
		return nil
	})
	return t, append(findings(problems), found...), err
}

// findLacks returns the warnings about columns and indexes, which need no look at the table's rows, and the reasons why
// single destinations cannot use the table.
func (t *Table) findLacks() (all []Lack) {
	e := t.examination()
	e.columns()
	if t.mapping.Key != noKey {
		e.ordered()
	}
	e.indexes()
	e.txid()
	add := func(destination string, found []finding.Finding) {
		for _, f := range found {
			if f.Severity != finding.OK {
				all = append(all, Lack{f, destination})
			}
		}
	}
	add("", e.found)
	for _, v := range t.config.Views {
		add(v.Name, t.viewFindings(v))
	}
	return all
}

// A Lack is something that the table should have, with its remedy.
type Lack struct {
	finding.Finding
	Destination string // the destination that lacks it, empty for all of them
}

// viewFindings returns the findings about the columns that a single destination has for itself.
func (t *Table) viewFindings(v View) []finding.Finding {
	m, problems := t.see(v)
	if found := findings(problems); len(found) > 0 {
		if v.Optional { // best effort: the other destinations go on without it
			found = finding.AsWarnings(found)
		}
		return found
	}
	if v.Columns == nil {
		return nil
	}
	e := t.examination()
	e.mapping, e.view, e.subject = m, v, e.subject+", destination "+v.Name
	e.ownColumns()
	e.pendingIndex()
	e.failedIndex()
	return e.found
}

// denies reports whether a right is missing.
func (e *SetupError) denies() bool { return server(e.Err).Code == insufficientPrivilege }

// findings returns the problems of a table that cannot be used.
func findings(problems []*SetupError) (found finding.List) {
	for _, p := range problems {
		found.Fail(p.Check, "", p.Problem, p.Remedy)
	}
	return found
}

// examination gathers the findings about a table that can be used.
type examination struct {
	*Table
	mapping *mapping
	view    View
	subject string
	quoted  string // the table's name, for statements
	found   finding.List
}

func (t *Table) examination() *examination {
	return &examination{Table: t, mapping: t.mapping, view: t.view, subject: t.Name(), quoted: t.Quoted()}
}

// add adds the first of the answers that applies.
func (e *examination) add(check string, answers ...finding.Answer) {
	e.found.Add(check, e.subject, answers...)
}

func (e *examination) partitioned() bool { return e.relation.Kind == "p" }

// storage examines the properties of the table itself: partitions, persistence and row security.
func (e *examination) storage() {
	r, kind := e.relation, "a table"
	if e.partitioned() {
		kind = "a partitioned table"
	}
	e.found.Well(checkTable, e.subject, fmt.Sprintf("found %s, %s", r.table, kind))
	const manyByTime, manyOthers = 500, 32
	e.add(checkTable,
		finding.WarnIf(r.parts != nil && r.Partitions.Number > manyByTime, fmt.Sprintf("there are %d partitions: a "+
			"look at all of them, which there is once a minute, takes long", r.Partitions.Number),
			"drop partitions of which every row is done (`outbox-relay prune`)"),
		finding.WarnIf(r.parts == nil && r.Partitions.Number > manyOthers, fmt.Sprintf("there are %d partitions that "+
			"are not ranges of a time: each statement opens all of them", r.Partitions.Number),
			"partition the table by time, or into fewer parts"))
	e.add(checkTable, finding.WarnIf(r.Unlogged, "the table is unlogged: after a crash of the server it is empty, and "+
		"what was not relayed is lost", "alter table "+e.quoted+" set logged;"))
	e.add(checkRights, finding.WarnIf(r.Policies, "row security is active for role "+r.Role+": rows that its policies "+
		"hide are never relayed, and rows that they let it see but not change are published and cannot be marked",
		"give the relay's role a policy that lets it see and update every row, or the attribute bypassrls"))
}

// columns reports which column is used for what, and what the table lacks.
func (e *examination) columns() {
	m, setting := e.mapping, e.config.Names.Of("Columns")
	var parts []string
	for _, r := range m.found() {
		switch c := *r.column; {
		case !c.Has():
		case c.Plain == r.name:
			parts = append(parts, r.name+" "+c.Type)
		default:
			parts = append(parts, r.name+": "+c.Plain+" "+c.Type)
		}
	}
	e.found.Well(checkColumns, e.subject, strings.Join(parts, ", ")+"; key: "+m.keySource)
	e.add(checkColumns, finding.WarnIf(len(m.ignored) > 0, "not used, since the type does not fit the name: "+
		strings.Join(m.ignored, ", "), "rename the column, or map another one with "+setting))
	e.add(checkColumns, finding.WarnIf(m.Key == noKey && e.config.Key.Kind != rowkey.None,
		"no row has an ordering key, so rows are relayed without any order", "name the column of the ordering key "+
			"with "+setting+"=key:NAME, or another source with "+e.config.Names.Of("Key")+"; none there means that "+
			"rows have no key"))
	names, without := e.absent()
	for i, name := range names {
		e.add(checkColumns, finding.WarnIf(!m.delete && e.view.Columns == nil, "there is no "+name+": "+without[i],
			"add the column, or name another one with "+setting+"="+name+":NAME"))
	}
}

// ownColumns reports which columns a destination has for itself, and once the cost of those that it does without.
func (e *examination) ownColumns() {
	var parts []string
	for _, r := range e.mapping.state.roles() {
		if r.column.Has() {
			parts = append(parts, r.name+": "+r.column.Plain)
		}
	}
	e.found.Well(checkColumns, e.subject, strings.Join(parts, ", "))
	names, without := e.absent()
	cost := strings.Join(without, "; ")
	e.add(checkColumns,
		finding.OKIf(e.view.RelayedOf != nil && len(e.view.Columns) == 1, "with relayed_at alone: "+cost),
		finding.WarnIf(len(names) > 0, "there is no "+strings.Join(names, ", ")+": "+cost, "name them in "+
			e.view.Names.Of("Columns")+", and run what `outbox-relay schema --destination "+e.view.Name+"` prints"))
}

// absent returns the missing columns of a destination's state, with the consequence of each.
func (e *examination) absent() (names, without []string) {
	for _, r := range e.mapping.state.roles() {
		if cost := map[string]string{
			"failed_at":  "a row that the broker refuses for good holds its key for ever",
			"attempt":    "tries are counted in memory only, and begin again after a restart",
			"last_error": "why a row was refused is only in the log, and waits begin again after a restart",
			"updated_at": "waits between tries begin again after a restart",
		}[r.name]; cost != "" && !r.column.Has() {
			names, without = append(names, r.name), append(without, cost)
		}
	}
	return names, without
}

// txid reports the consequences if no column holds the transaction that inserted a row and several destinations write
// into the row.
func (e *examination) txid() {
	e.add(checkColumns, finding.WarnIf(e.config.shared() && !e.mapping.Txid.Has(),
		"there is no txid, the transaction that inserted a row: while one destination marks rows before another has "+
			"read them, they look to it as if they had been committed late, and wait", "alter table "+e.quoted+" add "+
			"column txid xid8 not null default pg_current_xact_id();"))
}

const checkOrder = "order"

// ordered examines whether the type of the order is one that grows with time.
func (e *examination) ordered() {
	c := e.mapping.Order
	add := "add a column that grows with time (seq bigint generated always as identity), or name one with " +
		e.config.Names.Of("Columns") + "=order:NAME"
	e.add(checkOrder, finding.OKIf(!c.NotNull, fmt.Sprintf("%s may be NULL: rows without it come after all others, "+
		"and each poll begins at the first pending row instead of a recent one; alter table %s alter column %s set "+
		"not null avoids both",
		c.Plain, e.quoted, c.Name)))
	timed := slices.Contains(timeTypes, c.OID)
	e.add(checkOrder,
		finding.OKIf(timed, "rows are taken in the order of "+c.Plain+", then of the id"),
		finding.WarnIf(!slices.Contains(intTypes, c.OID), "rows are taken in the order of "+c.Plain+" "+c.Type+", "+
			"which does not grow with time: a key's rows leave in another order than they were written, and rows "+
			"after those read last wait for the reconciliation scan", add))
	e.add(checkOrder, finding.WarnIf(timed && strings.Contains(c.Type, "(0)"),
		c.Plain+" holds whole seconds: rows of one key within a second are relayed in the order of their ids", add))
}

// sequence examines whether numbers that give the order are handed out in the order of time.
func (e *examination) sequence(ctx context.Context, conn *pgx.Conn) error {
	c, cache := e.mapping.Order, int64(1)
	if !slices.Contains(intTypes, c.OID) {
		return nil
	}
	err := conn.QueryRow(ctx, sql.Text("doctor_sequence.sql", nil), pgx.QueryExecModeExec, e.relation.OID,
		c.Plain).Scan(&cache)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read sequence: %w", err)
	}
	e.add(checkOrder,
		finding.WarnIf(cache != 1, fmt.Sprintf("the sequence of %s hands out %d values to each session ahead, so a "+
			"later row may get a smaller one: such rows leave in another order than they were written", c.Plain, cache),
			"alter sequence … cache 1 for the sequence of "+e.quoted+"."+c.Name),
		finding.OKIf(true, "rows are taken in the order of "+c.Plain))
	return nil
}

// vacuum examines dead rows, which every read would have to step over.
func (e *examination) vacuum(ctx context.Context, conn *pgx.Conn) error {
	var off string
	var live, dead int64
	row := conn.QueryRow(ctx, sql.Text("doctor_vacuum.sql", nil), pgx.QueryExecModeExec, e.relation.OID)
	if err := row.Scan(&live, &dead, &off); err != nil {
		return fmt.Errorf("read table statistics: %w", err)
	}
	const many = 200_000
	settings := "alter table " + e.quoted
	if e.partitioned() { // which takes no such settings
		settings = "for each of its partitions alter table …"
	}
	counts := fmt.Sprintf("%d dead rows beside %d live ones", dead, live)
	e.add("vacuum",
		finding.WarnIf(off != "", "autovacuum is switched off for "+off+": each relayed row leaves a dead one behind, "+
			"and reads become slower and slower", "alter table "+off+" reset (autovacuum_enabled);"),
		finding.WarnIf(dead > many && dead > live/2, counts, "end transactions that have been open for long, then "+
			"vacuum "+e.quoted+"; let autovacuum begin sooner: "+settings+
			" set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);"),
		finding.OKIf(true, counts))
	return nil
}

// encoding examines whether the database can hold every character.
func (e *examination) encoding() {
	encoding := e.relation.Encoding
	e.add("encoding",
		finding.WarnIf(encoding == encodingNone, "the database's encoding is "+encoding+": texts are published as the "+
			"bytes that the application stored, in UTF-8 only if it wrote UTF-8", "move the database to encoding UTF8"),
		finding.WarnIf(encoding != encodingUTF8, "the database's encoding is "+encoding+": texts are published in "+
			`UTF-8, and characters beyond ASCII stand in last_error as \u20ac`,
			"move the database to encoding UTF8; until then nothing is lost"))
}

// doorbell examines the trigger that wakes a sleeping relay.
func (e *examination) doorbell(channel string) {
	const again = "apply again what `outbox-relay schema --doorbell` prints"
	d, listen := e.relation.Doorbell, e.config.Names.Of("ListenChannel")
	e.add("doorbell",
		finding.OKIf(!d.Found, "there is no doorbell trigger; a sleeping relay finds rows at its next poll "+
			"(`outbox-relay schema --doorbell` prints the trigger)"),
		finding.WarnIf(!d.Enabled, "the doorbell trigger is disabled",
			"alter table "+e.quoted+" enable trigger outbox_relay_doorbell;"),
		finding.WarnIf(channel == "", "the doorbell trigger notifies channel "+d.Channel+", but "+listen+" is empty, "+
			"so no relay listens", "set "+listen+"="+d.Channel+", or drop the trigger"),
		finding.WarnIf(d.Channel != channel, "the doorbell trigger notifies channel "+d.Channel+", the relay listens "+
			"on "+channel, "set "+listen+"="+d.Channel+", or "+again),
		finding.WarnIf(!d.Rings, "the doorbell trigger has been changed so that it does not notify for each insert",
			again),
		finding.OKIf(d.Prepares, "a trigger is there and does not ring, since transactions may be prepared here "+
			"(max_prepared_transactions); a sleeping relay finds rows at its next poll"),
		finding.OKIf(true, "a trigger wakes a sleeping relay through channel "+channel))
}
