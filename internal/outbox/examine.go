package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Examine examines the table as [Open] does and reports every problem, not just the first, and whatever makes relaying
// slow or less safe. channel is the channel on which the relay listens. Examine changes nothing. The returned table is
// nil if it cannot be used.
func Examine(ctx context.Context, pool *pgxpool.Pool, config Config, channel string) (*Table, []finding.Finding, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to database: %w", err)
	}
	defer conn.Release()
	end, err := pgsession.Begin(ctx, conn.Conn())
	if err != nil {
		return nil, nil, err
	}
	defer end(ctx)
	r, err := readCatalogue(ctx, conn.Conn(), config.Table, config.Names)
	if setup, ok := errors.AsType[*SetupError](err); ok {
		return nil, findings([]*SetupError{setup}), nil
	} else if err != nil {
		return nil, nil, err
	}
	if err := r.normalise(ctx, conn.Conn(), config); err != nil {
		return nil, nil, fmt.Errorf("read indexes: %w", err)
	}
	t, problems := wholeTable(pool, r, config)
	if t == nil {
		return nil, findings(problems), nil
	}
	if problem := r.deletesForStrangers(config); problem != nil {
		return nil, findings([]*SetupError{problem}), nil
	}
	e := newExamination(r, t.mapping, config, t.view)
	e.storage()
	e.encoding()
	e.columns()
	e.indexes()
	for _, look := range []func(context.Context, *pgx.Conn) error{e.order, e.vacuum} {
		if err := look(ctx, conn.Conn()); err != nil {
			return t, e.found, err
		}
	}
	if err := t.wallTime(ctx, conn.Conn(), e); err != nil {
		return t, e.found, err
	}
	e.doorbell(channel)
	marks, refusals, err := t.checkWrites(ctx, conn.Conn())
	if problem := cmp.Or(marks, refusals); problem != nil {
		e.found = append(e.found, findings([]*SetupError{problem})...)
	}
	if err != nil {
		return t, e.found, err
	}
	for _, v := range config.Views {
		e.found = append(e.found, viewFindings(r, config, v)...)
	}
	e.txid()
	return t, e.found, nil
}

// lacks returns the warnings about columns and indexes, which need no look at the table's rows, and the reasons why
// single destinations cannot use the table.
func lacks(r *relation, m *mapping, config Config, view View) (all []Lack) {
	e := newExamination(r, m, config, view)
	e.columns()
	if m.key != noKey {
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
	for _, v := range config.Views {
		add(v.Name, viewFindings(r, config, v))
	}
	return all
}

// A Lack is something that the table should have, with its remedy.
type Lack struct {
	finding.Finding
	Destination string // the destination that lacks it, empty for all of them
}

// txid reports the consequences if no column holds the transaction that inserted a row and several destinations write
// into the row.
func (e *examination) txid() {
	sets := 0
	for i, v := range e.config.Views {
		if !slices.ContainsFunc(e.config.Views[:i], v.SameColumns) {
			sets++
		}
	}
	if sets > 1 && e.mapping.txid == nil {
		e.warn(checkColumns, "alter table "+e.table.Quoted()+" add column txid xid8 not null default pg_current_xact_id();",
			"there is no txid, the transaction that inserted a row: while one destination marks rows before another has read them, they look to "+
				"it as if they had been committed late, and wait")
	}
}

// viewFindings returns the findings about the columns that a single destination has for itself.
func viewFindings(r *relation, config Config, v View) []finding.Finding {
	m, problems := mapColumns(r, config, v)
	if found := findings(problems); len(found) > 0 {
		if v.Optional { // best effort: the other destinations go on without it
			found = finding.AsWarnings(found)
		}
		return found
	}
	if v.Columns == nil {
		return nil
	}
	e := newExamination(r, m, config, v)
	e.subject += ", destination " + v.Name
	e.ownColumns()
	e.pendingIndex()
	e.failedIndex()
	return e.found
}

// findings returns the problems of a table that cannot be used. All missing rights are one finding, since one script
// grants them all.
func findings(problems []*SetupError) []finding.Finding {
	var found []finding.Finding
	rights := -1
	for _, p := range problems {
		if p.Check == checkRights {
			if rights >= 0 {
				found[rights].Found += "; " + p.Problem
				continue
			}
			rights = len(found)
		}
		found = append(found, finding.Finding{Severity: finding.Error, Check: p.Check, Found: p.Problem, Remedy: p.Remedy})
	}
	return found
}

// examination gathers the findings about a table that can be used.
type examination struct {
	relation *relation
	mapping  *mapping
	config   Config
	view     View
	table    sql.Table
	subject  string
	found    []finding.Finding
}

func newExamination(r *relation, m *mapping, config Config, view View) *examination {
	return &examination{relation: r, mapping: m, config: config, view: view, table: r.table, subject: r.table.String()}
}

func (e *examination) ok(check, format string, args ...any) {
	e.found = append(e.found, finding.Finding{Check: check, Subject: e.subject, Found: fmt.Sprintf(format, args...)})
}

func (e *examination) warn(check, remedy, format string, args ...any) {
	e.found = append(e.found, finding.Finding{
		Severity: finding.Warning, Check: check, Subject: e.subject,
		Found: fmt.Sprintf(format, args...), Remedy: remedy,
	})
}

// storage examines the properties of the table itself: partitions, persistence and row security.
func (e *examination) storage() {
	kind := "a table"
	if e.partitioned() {
		kind = "a partitioned table"
	}
	e.ok(checkTable, "found %s, %s", e.table, kind)
	const manyByTime, manyOthers = 500, 32
	switch n := e.relation.partitions; {
	case e.relation.parts != nil && n > manyByTime:
		e.warn(checkTable, "drop partitions of which every row is done (`outbox-relay prune`)",
			"there are %d partitions: a look at all of them, which there is once a minute, takes long", n)
	case e.relation.parts == nil && n > manyOthers:
		e.warn(checkTable, "partition the table by time, or into fewer parts",
			"there are %d partitions that are not ranges of a time: each statement opens all of them", n)
	}
	if e.relation.unlogged {
		e.warn(checkTable, "alter table "+e.table.Quoted()+" set logged;",
			"the table is unlogged: after a crash of the server it is empty, and what was not relayed is lost")
	}
	if e.relation.policies {
		e.warn(checkRights, "give the relay's role a policy that lets it see and update every row, or the attribute bypassrls",
			"row security is active for role %s: rows that its policies hide are never relayed, and rows that they let it see but not change are "+
				"published and cannot be marked", e.relation.role)
	}
}

func (e *examination) partitioned() bool { return e.relation.kind == "p" }

// columns reports which column is used for what, and what the table lacks.
func (e *examination) columns() {
	m := e.mapping
	var parts []string
	for _, r := range m.roles() {
		switch c := *r.column; {
		case c == nil:
		case c.Plain == r.name:
			parts = append(parts, r.name+" "+c.Type)
		default:
			parts = append(parts, r.name+": "+c.Plain+" "+c.Type)
		}
	}
	e.ok(checkColumns, "%s; key: %s", strings.Join(parts, ", "), e.keySource())
	if len(m.ignored) > 0 {
		e.warn(checkColumns, "rename the column, or map another one with "+e.config.Names.Of("Columns"),
			"not used, since the type does not fit the name: %s",
			strings.Join(m.ignored, ", "))
	}
	if m.key == noKey && e.config.Key.Kind != rowkey.None {
		e.warn(checkColumns, "name the column of the ordering key with "+e.config.Names.Of("Columns")+"=key:NAME, or another source with "+
			e.config.Names.Of("Key")+"; none there means that rows have no key",
			"no row has an ordering key, so rows are relayed without any order")
	}
	if !m.delete && e.view.Columns == nil {
		for _, l := range e.absent() {
			e.warn(checkColumns, "add the column, or name another one with "+e.config.Names.Of("Columns")+"="+l.name+":NAME", "there is no %s: %s",
				l.name, l.without)
		}
	}
}

// ownColumns reports which columns a destination has for itself, and once the cost of those that it does without.
func (e *examination) ownColumns() {
	var parts, names, without []string
	for _, part := range stateColumns {
		if name, named := e.view.Columns[part]; named {
			parts = append(parts, part+": "+name)
		}
	}
	e.ok(checkColumns, "%s", strings.Join(parts, ", "))
	for _, l := range e.absent() {
		names, without = append(names, l.name), append(without, l.without)
	}
	if e.view.RelayedOf != nil && len(e.view.Columns) == 1 {
		e.ok(checkColumns, "with relayed_at alone: %s", strings.Join(without, "; "))
	} else if len(names) > 0 {
		e.warn(checkColumns, "name them in "+e.view.Names.Of("Columns")+", and run what `outbox-relay schema --destination "+e.view.Name+
			"` prints",
			"there is no %s: %s", strings.Join(names, ", "), strings.Join(without, "; "))
	}
}

// absence is a missing column of a destination's state, with the consequence.
type absence struct{ name, without string }

func (e *examination) absent() (all []absence) {
	m := e.mapping
	for _, part := range []struct {
		column *Column
		absence
	}{
		{m.failed, absence{"failed_at", "a row that the broker refuses for good holds its key for ever"}},
		{m.attempt, absence{"attempt", "tries are counted in memory only, and begin again after a restart"}},
		{m.lastError, absence{"last_error", "why a row was refused is only in the log, and waits begin again after a restart"}},
		{m.updated, absence{"updated_at", "waits between tries begin again after a restart"}},
	} {
		if part.column == nil {
			all = append(all, part.absence)
		}
	}
	return all
}

func (e *examination) keySource() string {
	switch k := e.config.Key; {
	case k.Kind == rowkey.Header:
		return "header " + k.Name
	case k.Kind == rowkey.Payload:
		return "payload " + k.Name
	case k.Kind == rowkey.Topic:
		return "the topic"
	case e.mapping.keyColumn != "":
		return "column " + e.mapping.keyColumn
	default:
		return "none"
	}
}

const checkOrder = "order"

// ordered examines whether the type of the order is one that grows with time.
func (e *examination) ordered() {
	c := e.mapping.order
	add := "add a column that grows with time (" + `seq bigint generated always as identity` + "), or name one with " +
		e.config.Names.Of("Columns") + "=order:NAME"
	if !c.NotNull {
		e.ok(checkOrder, "%s may be NULL: rows without it come after all others, and each poll begins at the first pending row "+
			"instead of a recent one; alter table %s alter column %s set not null avoids both", c.Plain, e.table.Quoted(), c.Name)
	}
	switch {
	case slices.Contains(timeTypes, c.oid):
		e.ok(checkOrder, "rows are taken in the order of %s, then of the id", c.Plain)
		if strings.Contains(c.Type, "(0)") {
			e.warn(checkOrder, add, "%s holds whole seconds: rows of one key within a second are relayed in the order of their ids", c.Plain)
		}
	case !slices.Contains(intTypes, c.oid):
		e.warn(checkOrder, add, "rows are taken in the order of %s %s, which does not grow with time: a key's rows leave in another "+
			"order than they were written, and rows after those read last wait for the reconciliation scan", c.Plain, c.Type)
	}
}

// order examines whether the order of rows is the order of time.
func (e *examination) order(ctx context.Context, conn *pgx.Conn) error {
	const check = checkOrder
	c := e.mapping.order
	if e.ordered(); slices.Contains(timeTypes, c.oid) || !slices.Contains(intTypes, c.oid) {
		return nil
	}
	var cache int64
	err := conn.QueryRow(ctx, sql.Text("doctor_sequence.sql", nil), pgx.QueryExecModeExec, e.relation.oid, c.Plain).Scan(&cache)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("read sequence: %w", err)
	}
	if err == nil && cache != 1 {
		e.warn(check, "alter sequence … cache 1 for the sequence of "+e.table.Quoted()+"."+c.Name,
			"the sequence of %s hands out %d values to each session ahead, so a later row may get a smaller one: such rows leave in another "+
				"order than they were written", c.Plain, cache)
		return nil
	}
	e.ok(check, "rows are taken in the order of %s", c.Plain)
	return nil
}

// vacuum examines dead rows, which every read would have to step over.
func (e *examination) vacuum(ctx context.Context, conn *pgx.Conn) error {
	var off string
	var live, dead int64
	err := conn.QueryRow(ctx, sql.Text("doctor_vacuum.sql", nil), pgx.QueryExecModeExec, e.relation.oid).Scan(&live, &dead, &off)
	if err != nil {
		return fmt.Errorf("read table statistics: %w", err)
	}
	const many = 200_000
	settings := "alter table " + e.table.Quoted() + " set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);"
	if e.partitioned() { // which takes no such settings
		settings = "for each of its partitions alter table … set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);"
	}
	switch {
	case off != "":
		e.warn("vacuum", "alter table "+off+" reset (autovacuum_enabled);",
			"autovacuum is switched off for %s: each relayed row leaves a dead one behind, and reads become slower and slower", off)
	case dead > many && dead > live/2:
		e.warn("vacuum", "end transactions that have been open for long, then vacuum "+e.table.Quoted()+"; let autovacuum begin sooner: "+
			settings, "%d dead rows beside %d live ones", dead, live)
	default:
		e.ok("vacuum", "%d dead rows beside %d live ones", dead, live)
	}
	return nil
}
