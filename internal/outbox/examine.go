package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Examine examines the table as [Open] does and reports every problem, not just the first, and whatever makes relaying
// slow or less safe. Examine changes nothing. The returned table is nil if it cannot be used.
func Examine(ctx context.Context, pool *pgxpool.Pool, config Config) (t *Table, found []finding.Finding, err error) {
	t, problems, err := lookUp(ctx, pool, config)
	if t == nil {
		return nil, findings(problems), err
	}
	err = t.checkAccess(ctx)
	denied, isDenied := errors.AsType[*SetupError](err)
	if isDenied {
		err = nil
	}
	e := examination{Table: t, subject: t.Name()}
	e.storage()
	e.lacks(!isDenied)
	err = errors.Join(err, e.vacuum(ctx))
	if isDenied {
		if e.found = append(e.found, denied.Finding); server(denied.Err).Code == insufficientPrivilege {
			t = nil // nothing else can be asked
		}
	}
	return t, e.found, err
}

// Lacks returns the warnings about columns and indexes, which need no look at the table's rows, and the reasons why
// single destinations cannot use the table.
func (t *Table) Lacks() []finding.Finding {
	e := examination{Table: t, subject: t.Name()}
	e.lacks(true)
	return slices.DeleteFunc(e.found, func(f finding.Finding) bool {
		return f.Severity == finding.OK || f.Check == checkOrder && t.mapping.Key == noKey
	})
}

// findings returns the problems of a table that cannot be used.
func findings(problems []*SetupError) []finding.Finding {
	return each(problems, func(e *SetupError) finding.Finding { return e.Finding })
}

// examination gathers the findings about a table that can be used.
type examination struct {
	*Table
	subject string // the table, or a destination's part of it
	found   finding.List
}

// add adds the first of the answers that applies.
func (e *examination) add(check string, answers ...finding.Answer) {
	e.found.Add(check, e.subject, answers...)
}

// lacks examines the columns and indexes, of the destinations too if they can use the table.
func (e *examination) lacks(able bool) {
	m, r, setting := e.mapping, e.relation, e.config.Names.Of("Columns")
	e.add(checkRights, finding.WarnIf(r.Policies, "row security is active for role "+r.Role+": rows that its policies "+
		"hide are never relayed, and rows that it may see but not change are published and cannot be marked",
		"give the relay's role a policy that lets it see and update every row, or the attribute bypassrls"))
	e.columns()
	e.ids()
	if e.view.Columns == nil {
		e.byState()
		e.byKey()
	}
	e.ordered()
	e.add(checkColumns, finding.WarnIf(e.config.shared() && !m.Txid.Has(), "there is no txid, the transaction that "+
		"inserted a row: rows that one destination marks before another has read them look late to it, and wait",
		"alter table "+e.Quoted()+" add column txid xid8 not null default pg_current_xact_id();"))
	e.add(checkColumns, finding.WarnIf(len(m.ignored) > 0, "not used, since the type does not fit the name: "+
		strings.Join(m.ignored, ", "), "rename the column, or map another one with "+setting))
	e.add(checkColumns, finding.WarnIf(m.Key == noKey && e.config.Key.Kind != rowkey.None,
		"no row has an ordering key, so rows are relayed without any order", "name its column with "+setting+
			"=key:NAME, or another source with "+e.config.Names.Of("Key")+", or none there"))
	for _, v := range e.config.Views {
		m, subject := e.see(v), e.Name()+", destination "+v.Name
		switch {
		case able && len(m.problems) > 0:
			for _, f := range findings(m.problems) {
				if f.Subject = subject; v.Optional { // best effort: the other destinations go on without it
					f.Severity = finding.Warning
				}
				e.found = append(e.found, f)
			}
		case v.Columns != nil && len(m.problems) == 0:
			own := examination{e.with(m), subject, nil}
			own.columns()
			own.byState()
			e.found = append(e.found, own.found...)
		}
	}
}

// storage examines the properties of the table itself: partitions, persistence, row security, encoding and trigger.
func (e *examination) storage() {
	r, many := e.relation, 32
	if r.parts != nil {
		many = 500
	}
	e.add(checkTable, finding.OKIf(true, fmt.Sprintf("found %s, partitions: %d", r.table, r.Partitions.Number)))
	e.add(checkTable, finding.WarnIf(r.Partitions.Number > many, fmt.Sprintf("there are %d partitions: each statement "+
		"opens all of them, or, if they are ranges of a time, each look at the catalogue", r.Partitions.Number),
		"drop those of which every row is done (`outbox-relay prune`), partition by time, or into fewer parts"))
	e.add(checkTable, finding.WarnIf(r.Unlogged, "the table is unlogged: after a crash of the server it is empty, and "+
		"what was not relayed is lost", "alter table "+e.Quoted()+" set logged;"))
	e.add("encoding", finding.WarnIf(r.Encoding != encodingUTF8, "the database's encoding is "+r.Encoding+
		`: characters beyond ASCII stand in last_error as \u20ac, and with SQL_ASCII texts are published as they are `+
		"stored", "move the database to encoding UTF8"))

	const again = "apply again what `outbox-relay schema --doorbell` prints"
	d, channel, listen := r.Doorbell, e.config.Channel, e.config.Names.Of("ListenChannel")
	e.add("doorbell",
		finding.OKIf(!d.Found, "there is no doorbell trigger; a sleeping relay finds rows at its next poll "+
			"(`outbox-relay schema --doorbell` prints the trigger)"),
		finding.WarnIf(!d.Enabled, "the doorbell trigger is disabled",
			"alter table "+e.Quoted()+" enable trigger outbox_relay_doorbell;"),
		finding.WarnIf(d.Channel != channel, "the doorbell trigger notifies channel "+d.Channel+", the relay listens "+
			"on "+cmp.Or(channel, "none"), "set "+listen+"="+d.Channel+", or "+again),
		finding.WarnIf(!d.Rings, "the doorbell trigger has been changed so that it does not notify for each insert",
			again),
		finding.OKIf(d.Prepares, "a trigger is there and does not ring, since transactions may be prepared here "+
			"(max_prepared_transactions); a sleeping relay finds rows at its next poll"),
		finding.OKIf(true, "a trigger wakes a sleeping relay through channel "+channel))
}

// columns reports which column is used for what, and what cannot be done without those of the state that are missing.
func (e *examination) columns() {
	m := e.mapping
	roles, key := m.found(), "; key: "+m.keySource
	add := "add it, or name another one with " + e.config.Names.Of("Columns") + "=NAME:COLUMN"
	if e.view.Columns != nil {
		roles, key = m.state.roles(), ""
		add = "name them in " + e.view.Names.Of("Columns") + ", and run what `outbox-relay schema --destination " +
			e.view.Name + "` prints"
	}
	var has, lacks []string
	for _, r := range roles {
		if c := *r.column; c.Has() {
			has = append(has, r.name+": "+c.Plain+" "+c.Type)
		} else if r.without != "" {
			lacks = append(lacks, r.name+" ("+r.without+")")
		}
	}
	e.add(checkColumns, finding.OKIf(true, strings.Join(has, ", ")+key))
	without := "there is no " + strings.Join(lacks, ", ")
	e.add(checkColumns,
		finding.OKIf(e.view.RelayedOf != nil && len(has) == 1, without),
		finding.WarnIf(lacks != nil && !m.delete, without, add))
}

const checkOrder = "order"

// ordered examines whether the order is one that grows with time.
func (e *examination) ordered() {
	c := e.mapping.Order
	add := "add a column that grows with time (seq bigint generated always as identity), or name one with " +
		e.config.Names.Of("Columns") + "=order:NAME"
	timed := slices.Contains(timeTypes, c.OID)
	e.add(checkOrder, finding.OKIf(!c.NotNull, fmt.Sprintf("%s may be NULL: rows without it come after all others, "+
		"and each poll begins at the first pending row; alter table %s alter column %s set not null avoids both",
		c.Plain, e.Quoted(), c.Name)))
	order := "rows are taken in the order of " + c.Plain
	e.add(checkOrder,
		finding.WarnIf(timed && strings.Contains(c.Type, "(0)"), c.Plain+" holds whole seconds: rows of one key "+
			"within a second are relayed in the order of their ids", add),
		finding.OKIf(timed, order+", then of the id"),
		finding.WarnIf(!slices.Contains(intTypes, c.OID), order+" "+c.Type+", which does not grow with time: rows of "+
			"a key leave in another order than they were written, and some wait for the reconciliation scan", add),
		finding.WarnIf(c.Cache > 1, fmt.Sprintf("the sequence of %s hands out %d values to each session ahead: rows "+
			"of a key may leave in another order than they were written", c.Plain, c.Cache),
			"alter sequence … cache 1 for the sequence of "+e.Quoted()+"."+c.Name),
		finding.OKIf(true, order))
}

// vacuum examines dead rows, which every read would have to step over.
func (e *examination) vacuum(ctx context.Context) error {
	size, err := e.Size(ctx)
	if err != nil {
		return err
	}
	live, dead, off := size.LiveRows, size.DeadRows, size.Unvacuumed
	counts := fmt.Sprintf("%d dead rows beside %d live ones", dead, live)
	e.add("vacuum",
		finding.WarnIf(off != "", "autovacuum is switched off for "+off+": each relayed row leaves a dead one, and "+
			"reads become slower and slower", "alter table "+off+" reset (autovacuum_enabled);"),
		finding.WarnIf(dead > max(200_000, live/2), counts, "end transactions that have been open for long, then "+
			"vacuum "+e.Quoted()+"; let autovacuum begin sooner, for each partition if there are some: alter table "+
			e.Quoted()+" set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000);"),
		finding.OKIf(true, counts))
	return nil
}
