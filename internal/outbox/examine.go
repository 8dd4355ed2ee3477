package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pattern"
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
	e := examination{Table: t, subject: t.Name()}
	e.storage()
	e.lacks(!isDenied)
	if isDenied {
		e.found, err = append(e.found, denied.Finding), nil
		if server(denied.Err).Code == insufficientPrivilege {
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
	return slices.DeleteFunc(e.found, func(f finding.Finding) bool { return f.Severity == finding.OK })
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

// warn adds a warning if it applies.
func (e *examination) warn(applies bool, check, found, remedy string) {
	e.add(check, finding.WarnIf(applies, found, remedy))
}

// lacks examines the columns and indexes, of the destinations too if they can use the table.
func (e *examination) lacks(able bool) {
	m, names := e.mapping, e.config.Names
	e.warn(e.relation.Policies, checkRights, "row security is active for role "+e.relation.Role+": rows that its "+
		"policies hide are never relayed, and rows that it may see but not change are published and cannot be marked",
		"give the role a policy that lets it see and update every row, or the attribute bypassrls")
	e.columns()
	e.warn(len(m.beside) > 0, "id", "no unique index holds "+m.ID.Plain+" alone: a broker may drop a message as a "+
		"duplicate of another row with its id; where no unique index holds "+m.ID.Plain+" at all, rows that also have "+
		"the same "+m.Order.Plain+" count as one row, and where no index begins with it, writes read the whole table",
		"make "+m.ID.Plain+" the primary key; of a table in parts, let it be unique in all of them, as uuids are")
	if e.view.Columns == nil {
		e.indexes()
	}
	e.ordered()
	e.warn(e.config.shared() && !m.Txid.Has(), checkColumns, "there is no txid, the transaction that inserted a row: "+
		"rows that one destination marks before another has read them look late to it, and wait",
		"alter table "+e.Quoted()+" add column txid xid8 not null default pg_current_xact_id();")
	e.warn(len(m.ignored) > 0, checkColumns, "not used, since the type does not fit the name: "+
		strings.Join(m.ignored, ", "), "rename the column, or map another one with "+names.Of("Columns"))
	e.warn(m.Key == noKey && e.config.Key.Kind != rowkey.None, checkColumns, "no row has an ordering key, so rows are "+
		"relayed without any order", "name its column with "+names.Of("Columns")+"=key:NAME, or another source, or "+
		"none, with "+names.Of("Key"))
	for _, v := range e.config.Views {
		m, own := e.see(v), examination{e.Table, e.Name() + ", destination " + v.Name, nil}
		if v.Columns != nil && len(m.problems) == 0 {
			own.Table = e.with(m)
			own.columns()
			own.indexes()
		} else if able {
			for _, f := range findings(m.problems) {
				f.Subject = own.subject
				own.found = append(own.found, f)
			}
		}
		if v.Optional { // best effort: the other destinations go on without it
			finding.AsWarnings(own.found)
		}
		e.found = append(e.found, own.found...)
	}
}

// storage examines the properties of the table itself: partitions, encoding and trigger.
func (e *examination) storage() {
	r, parts := e.relation, e.relation.Partitions.Number
	e.add(checkTable, finding.OKIf(true, fmt.Sprintf("found %s, partitions: %d", r.table, parts)))
	e.warn(parts > 500 || parts > 32 && r.parts == nil, checkTable, "there are very many partitions: each statement "+
		"opens all of them, or, if they are ranges of a time, each look at the catalogue", "drop those of which every "+
		"row is done (`outbox-relay prune`), partition by time, or into fewer parts")
	e.warn(r.Encoding != encodingUTF8, "encoding", "the database's encoding is "+r.Encoding+": characters beyond "+
		`ASCII stand in last_error as \u20ac, and with SQL_ASCII texts are published as they are stored`,
		"move the database to encoding UTF8")
	channel := cmp.Or(e.config.Channel, "none")
	e.add("doorbell",
		finding.OKIf(r.Doorbell == channel, "a trigger wakes a sleeping relay through channel "+channel),
		finding.OKIf(true, "no doorbell trigger (`outbox-relay schema --doorbell` prints it) notifies the channel on "+
			"which the relay listens, "+channel+", of each insert, or transactions may be prepared here "+
			"(max_prepared_transactions): a sleeping relay finds rows at its next poll"))
}

// columns reports which column is used for what, and what cannot be done without those of the state that are missing.
func (e *examination) columns() {
	m, v, setting := e.mapping, e.view, e.config.Names.Of("Columns")
	if v.Columns != nil {
		setting = v.Names.Of("Columns")
	}
	e.add(checkColumns, finding.OKIf(true, m.Describe()))
	var lacks []string
	for _, r := range m.state.roles()[1:] {
		if !r.column.Has() {
			lacks = append(lacks, r.name)
		}
	}
	// What another destination has relayed may be sent with relayed_at alone.
	e.warn(lacks != nil && !m.config.Delete && (v.RelayedOf == nil || len(lacks) < 4), checkColumns, "there is no "+
		strings.Join(lacks, ", ")+": without failed_at a row that is refused for good holds its key for ever, without "+
		"the others tries and waits begin again after a restart, and errors are only logged",
		"add the column (`outbox-relay schema` prints its type), and name it with "+setting)
}

const checkOrder = "order"

// ordered examines whether the order is one that grows with time.
func (e *examination) ordered() {
	c, order := e.mapping.Order, "rows are taken in the order of "+e.mapping.Order.Plain+" "+e.mapping.Order.Type
	e.add(checkOrder, finding.OKIf(!c.NotNull, c.Plain+" may be NULL: rows without it come after all others, and each "+
		"poll begins at the first pending row; alter column "+c.Name+" set not null avoids both"))
	grows := slices.Contains(timeTypes, c.OID) && !strings.Contains(c.Type, "(0)") ||
		slices.Contains(intTypes, c.OID) && c.Cache <= 1
	e.add(checkOrder,
		finding.OKIf(grows || e.mapping.Key == noKey, order+", then of the id"),
		finding.WarnIf(true, order+", which does not grow with time (it holds whole seconds, is neither a number "+
			"nor a time, or belongs to a sequence with a cache): rows of a key may leave in another order than they "+
			"were written, and some wait for the reconciliation scan", "add a column that grows (seq bigint generated "+
			"always as identity), name one with "+e.config.Names.Of("Columns")+"=order:NAME, or set cache 1"))
}

const checkIndex = "index"

// indexes reports the cost if there is no index of the pending, the due or the failed rows, or none that fits, with the
// statement that creates it.
func (e *examination) indexes() {
	m, available := e.mapping, e.mapping.Available
	create := func(columns, also string) string {
		return e.CreateIndex(columns, pattern.And(pattern.And(m.Pending, m.Taken), also))
	}
	order, untimed := m.position().columns(), pattern.Always
	if m.dueIndex {
		untimed = available.Name + " is null"
	}
	e.add(checkIndex,
		finding.WarnIf(!m.followed, "no index of pending rows in their order, which is that of priorities if there "+
			"are some: polls read the table and are made less often; pending_rows and oldest_pending_age_seconds are "+
			"left out", create(order, untimed)),
		finding.WarnIf(!m.lean, "the index of pending rows also holds failed or scheduled ones, or those that the "+
			"destination never takes: each poll steps over them; a destination's own pending_rows and "+
			"oldest_pending_age_seconds are left out", create(order, untimed)),
		finding.OKIf(true, "pending rows are read in order from an index"))
	e.warn(m.Failed.Has() && !m.failedIndex, checkIndex, "no index of failed rows: the gauge failed_rows is left out, "+
		"and looking for failed rows reads the table", e.CreateFailedIndex())
	e.warn(e.view.Columns == nil && m.Key != noKey && !m.keyIndex, checkIndex, "no index of pending rows by key: "+
		"while rows are refused, or a topic is missing, each round of retries passes over all pending rows (such an "+
		"index is possible where the key comes from text or jsonb, not from json or a time)",
		create(m.keyHash()+", "+m.rankFirst()+m.Order.Name, pattern.Always))
	e.warn(available.Has() && !m.dueIndex, checkIndex, "no index of due times: rows with "+available.Plain+" are "+
		"relayed the later the more are scheduled", create(available.Name+", "+order, available.Name+" is not null"))
	e.warn(available.NotNull, checkIndex, available.Plain+" is never null: every row is read by that time, and rows "+
		"of one key keep no order", "let it be null in rows that are to be relayed at once and in order: alter table "+
		e.Quoted()+" alter "+available.Name+" drop not null, alter "+available.Name+" drop default;")
}
