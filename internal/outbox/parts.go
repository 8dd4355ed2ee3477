package outbox

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/sql"
)

// parts looks up columns and collects the problems.
type parts struct {
	*relation
	*mapping
	view      View
	names     setting.Names
	named     map[string]string // the relay's names of columns to the table's
	preferred map[string]string
	problems  []*SetupError
}

// fail records a problem of the columns.
func (p *parts) fail(remedy, format string, args ...any) {
	p.problems = append(p.problems, problem(checkColumns, remedy, format, args...))
}

// missing records that a column is missing for something.
func (p *parts) missing(remedy, column, what string, args ...any) {
	p.fail(remedy, "table %s has no column %s, "+what, append([]any{p.table(), column}, args...)...)
}

func (p *parts) table() string { return p.relation.table.String() }

// column returns the column that plays a part, the zero Column if the table has none that fits. Only a column of the
// view's own can play a part in the state that the view keeps in columns of its own.
func (p *parts) column(r role, required bool) Column {
	c, name, mapped := p.find(r.name)
	table, setting := p.table(), p.setting(r.name)
	fits := !c.Has() || r.types == nil || slices.Contains(r.types, c.OID)
	switch {
	case !c.Has() && !mapped && required:
		remedy := "add it, or name another column with " + setting + "=" + r.name + ":NAME"
		if r.name == "relayed_at" && !p.own(r.name) {
			remedy += ", or set " + p.names.Of("Delete") + ", which does not need it"
		}
		if other := p.preferred[r.name]; other != "" {
			name = other + " or " + name
		}
		p.fail(remedy, "table %s has no column %s", table, name)
	case !fits && (required || mapped):
		remedy := "correct " + setting
		if required {
			remedy = "map another column with " + setting + "=" + r.name + ":NAME, or change its type to " +
				typeNames[r.name]
		}
		p.fail(remedy, "column %s of table %s has type %s, which the relay cannot use as %s",
			name, table, c.Type, r.name)
	case !fits:
		p.ignored = append(p.ignored, name+" ("+c.Type+")")
		return Column{}
	}
	return c
}

// own reports whether a part is of the state that the view keeps in columns of its own.
func (p *parts) own(part string) bool {
	return p.view.Columns != nil && slices.Contains(stateColumns, part)
}

// setting is the setting that names the column of a part.
func (p *parts) setting(part string) string {
	if p.own(part) {
		return p.view.Names.Of("Columns")
	}
	return p.names.Of("Columns")
}

// find returns the column that plays a part, and whether the configuration names it.
func (p *parts) find(part string) (c Column, name string, mapped bool) {
	names, remedy, whose := p.named, "correct "+p.setting(part), ""
	if p.own(part) {
		names, whose = p.view.Columns, " for destination "+p.view.Name
		remedy = "let its owner run what `outbox-relay schema --destination " + p.view.Name + "` prints, or " + remedy
	}
	if name, mapped = names[part]; !mapped && !p.own(part) {
		name = part
		if other := p.preferred[part]; p.columns[other].Has() {
			name = other
		}
	}
	if c = p.columns[name]; !c.Has() && mapped {
		p.missing(remedy, name, "which %s names as %s%s", p.setting(part), part, whose)
	}
	return c, name, mapped
}

// text returns the expression for a column as text, and records whether it is the stored text.
func (p *parts) text(c Column) string {
	expression := c.Name + "::text"
	p.texts[expression] = slices.Contains(textTypes[:2], c.OID)
	return expression
}

// order returns the column whose values give the table its order: order or seq, else inserted_at, else the id.
func (p *parts) order() Column {
	c, _, mapped := p.find("order")
	if !mapped {
		c = p.columns["seq"]
	}
	if c.Has() && slices.Contains(unordered, c.OID) {
		if mapped {
			p.fail("correct "+p.names.Of("Columns"), "column %s of table %s has type %s, which has no useful order",
				c.Plain, p.table(), c.Type)
		}
		p.ignored = append(p.ignored, c.Plain+" ("+c.Type+")")
		c = Column{}
	}
	return cmp.Or(c, p.Inserted, p.ID)
}

// The key and the place of every row in a table without them.
const (
	noKey    = "null::text"
	noSource = "none"
	noPlace  = "null::tid"
)

func (p *parts) key(key rowkey.Source) {
	p.mapping.Key, p.keySource = noKey, noSource
	setting := p.names.Of("Key")
	var c Column
	switch key.Kind {
	case rowkey.Default:
		c, _, _ = p.find("key")
	case rowkey.Column:
		if c = p.columns[key.Name]; !c.Has() {
			p.missing("correct "+setting, key.Name, "which %s names", setting)
		}
	case rowkey.Header:
		if p.Headers.Has() {
			p.mapping.Key, p.keyVaries = p.inHeaders(key.Name), p.Headers.OID == pgtype.JSONOID
			p.keySource = "header " + key.Name
			return
		}
		p.fail("correct "+setting+", or name the column with "+p.names.Of("Columns")+"=headers:NAME",
			"%s=header:%s requires a headers column of type jsonb or json, and table %s has none",
			setting, key.Name, p.table())
	case rowkey.Payload:
		if p.hasJSON() {
			p.mapping.Key, p.keyVaries = p.inPayload(key.Name), p.Payload.OID == pgtype.JSONOID
			p.keySource = "payload " + key.Name
			return
		}
		p.fail("correct "+setting, "%s=payload:%s requires a payload of type jsonb or json", setting, key.Name)
	case rowkey.Topic:
		c = p.Topic
	case rowkey.None:
	}
	if !c.Has() {
		return
	}
	p.mapping.Key, p.keySource, p.keyVaries = p.text(c), "column "+c.Plain, slices.Contains(varying, c.OID)
	if slices.Contains(textTypes[:2], c.OID) && key.Kind != rowkey.Topic {
		p.mapping.Key = c.Name
		p.texts[c.Name] = true
	}
}

// inHeaders is the expression for a row's own header as text.
func (p *parts) inHeaders(name string) string { return jsonText(p.Headers, "->> "+sql.Literal(name)) }

// hasJSON reports whether the payload has parts that can be addressed.
func (p *parts) hasJSON() bool { return p.Payload.Has() && isJSON(p.Payload) }

// inPayload is the expression for the value at a path of a JSON payload, as text.
func (p *parts) inPayload(path string) string {
	var steps []string
	for step := range strings.SplitSeq(path, ".") {
		steps = append(steps, sql.Literal(step))
	}
	return jsonText(p.Payload, "#>> array["+strings.Join(steps, ", ")+"]")
}

// extra finds the additional texts of a row. headers are the columns that are sent as headers.
func (p *parts) extra(extras []Extra, headers map[string]string) {
	for i, e := range extras {
		expression, before := "", len(p.problems)
		switch column := p.columns[headers[e.Name]]; {
		case e.Kind == ExtraPayload && p.hasJSON():
			expression = p.inPayload(e.Name)
		case e.Kind == ExtraPayload:
			p.fail("correct the template",
				"a template names {payload.%s}, which needs a payload of type jsonb or json", e.Name)
		case e.Kind == ExtraHeader && p.Headers.Has() && column.Has():
			expression = "coalesce(" + p.inHeaders(e.Name) + ", " + p.text(column) + ")"
		case e.Kind == ExtraHeader && p.Headers.Has():
			expression = p.inHeaders(e.Name)
		case e.Kind == ExtraHeader && column.Has():
			expression = p.text(column)
		case e.Kind == ExtraHeader:
			p.fail("correct the template, or name the column with "+p.names.Of("Columns")+"=headers:NAME",
				"a template names {header.%s}, which needs a headers column of type jsonb or json, and table %s has "+
					"none",
				e.Name, p.table())
		case e.Kind == ExtraTime:
			expression = p.time(e.Name)
			p.indistinct[expression] = true
		case p.columns[e.Name].Has():
			expression = p.text(p.columns[e.Name])
		default:
			p.missing("correct the template, or add the column", e.Name, "which a template names as {%s}", e.Name)
		}
		if len(p.problems) > before && p.view.Extra != nil && !slices.Contains(p.view.Extra, i) {
			// It is another destination's problem.
			p.problems, expression = p.problems[:before], "null::text"
		}
		p.mapping.extra = append(p.mapping.extra, expression)
	}
}

// time is the expression for the time in a column, in milliseconds since 1970.
func (p *parts) time(name string) string {
	c, setting := p.columns[name], p.names.Of("TimeColumn")
	if !c.Has() {
		p.missing("correct "+setting+", or add the column", name, "which %s names", setting)
		return ""
	}
	if !slices.Contains(timeTypes, c.OID) {
		p.fail("correct "+setting, "column %s of table %s has type %s, which is not a timestamp",
			name, p.table(), c.Type)
	}
	const form = "case when isfinite(%[1]s) then (extract(epoch from %[1]s) * 1000)::bigint::text end"
	return fmt.Sprintf(form, c.Name)
}

// encoded checks that a payload that encodes bytes is text.
func (p *parts) encoded() {
	if p.Payload.Has() && !slices.Contains(textTypes[:2], p.Payload.OID) {
		setting := p.view.Names.Of("PayloadEncoding")
		p.fail("remove "+setting+", or store the payload as text",
			"%s requires a payload of type text or varchar, and column %s of table %s has type %s",
			setting, p.Payload.Plain, p.table(), p.Payload.Type)
	}
}

// placed is a column whose text is sent as a header.
type placed struct{ header, expression string }

func (p *parts) place(headers map[string]string) {
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		name := headers[header]
		c := p.columns[name]
		if !c.Has() {
			setting := p.names.Of("Columns")
			p.missing("correct "+setting, name, "which %s sends as header %s", setting, header)
			return
		}
		expression := p.text(c)
		if c.OID == pgtype.IntervalOID && strings.EqualFold(header, publisher.HeaderNATSTTL) { // it is in seconds
			const form = "case when isfinite(%[1]s) then ceil(extract(epoch from %[1]s))::bigint::text end"
			expression = fmt.Sprintf(form, c.Name)
		}
		p.placed = append(p.placed, placed{header, expression})
	}
}

// dated checks that the table holds a row's age and can mark a row as failed. For rows that failed or were relayed
// elsewhere, age counts from then.
func (p *parts) dated() {
	need := func(part string, found bool) {
		if !found {
			remedy := "add the column, name the one that serves in " + p.setting(part)
			p.missing(remedy+", or remove "+p.view.Names.Of("MaxAge"), part,
				"which destination %s needs for rows to fail for their age", p.view.Name)
		}
	}
	need("failed_at", p.Failed.Has())
	need("inserted_at", p.Inserted.Has() || p.view.origin() != nil)
}
