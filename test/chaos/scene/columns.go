package scene

import (
	"fmt"
	"path/filepath"
	"strings"
)

// parts are the columns that keep the state of a row.
var parts = []string{"relayed_at", "attempt", "failed_at", "last_error", "updated_at"}

// ownColumns is OUTBOX_DESTINATION_…_COLUMNS, or "" for the table's own columns.
func (d *Destination) ownColumns() string {
	if d.Columns == "" {
		return ""
	}
	var all []string
	for _, part := range parts {
		if part == "relayed_at" || !d.Brief {
			all = append(all, part+":"+d.Columns+part)
		}
	}
	return strings.Join(all, ",")
}

// PauseFile returns the path of the file in a folder that pauses a destination.
func (d *Destination) PauseFile(dir string) string { return filepath.Join(dir, "pause-"+d.Name) }

// Final is the query for the state of each row at a destination: id, relayed, failed, attempt, error and the time of
// the failure.
func (d *Destination) Final() string {
	c := d.Columns
	if d.Brief {
		return fmt.Sprintf("select id::text, %srelayed_at is not null, false, 1, '', '' from outbox_messages order "+
			"by seq", c)
	}
	return fmt.Sprintf(`select id::text, %[1]srelayed_at is not null, %[1]sfailed_at is not null, %[1]sattempt,
		coalesce(%[1]slast_error, ''),
		coalesce(%[2]s, '') from outbox_messages order by seq`, c, timeOf(c+"failed_at"))
}

// timeOf is an expression that formats a time like a dead letter's header.
func timeOf(column string) string {
	return `to_char(` + column + ` at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

// Pending is the condition for rows that some destination still has to process.
func (s *Scene) Pending() string {
	var all []string
	for _, d := range s.Destinations {
		pending := d.Columns + "relayed_at is null"
		if !d.Brief {
			pending += " and " + d.Columns + "failed_at is null"
		}
		if origin := s.named(d.FailedOf); origin != nil {
			pending += " and " + origin.Columns + "failed_at is not null" + origin.byTopic()
		}
		if origin := s.named(d.RelayedOf); origin != nil {
			pending += " and " + origin.Columns + "relayed_at is not null and " + origin.Columns + "failed_at is null" +
				origin.byTopic()
		}
		all = append(all, "("+pending+")")
	}
	return strings.Join(all, " or ")
}

// byTopic is the condition for the rows that a destination takes, beginning with "and"; "" for all.
func (d *Destination) byTopic() string {
	if d.Patterns == "" {
		return ""
	}
	var any []string
	for pattern := range strings.SplitSeq(d.Patterns, ",") {
		any = append(any, "topic like '"+strings.ReplaceAll(strings.ReplaceAll(pattern, "_", `\_`), "*", "%")+"'")
	}
	return " and (" + strings.Join(any, " or ") + ")"
}

func (s *Scene) named(name string) *Destination {
	for i := range s.Destinations {
		if s.Destinations[i].Name == name && name != "" {
			return &s.Destinations[i]
		}
	}
	return nil
}

// Witness is DDL for a table of all committed failures, in any destination's columns. Triggers write to it in the
// transaction of the failure itself.
func (s *Scene) Witness() string {
	script := "create table failures (columns text not null, id uuid not null, at text not null);\n"
	done := map[string]bool{}
	for _, d := range s.Destinations {
		if done[d.Columns] || d.Brief {
			continue
		}
		done[d.Columns] = true
		script += fmt.Sprintf(`
create function note_%[1]sfailure() returns trigger language plpgsql set search_path from current as $note$
begin
  insert into failures (columns, id, at) values ('%[1]s', new.id, %[2]s);
  return null;
end $note$;
create trigger note_%[1]sfailure after update on outbox_messages for each row
  when (new.%[1]sfailed_at is not null and new.%[1]sfailed_at is distinct from old.%[1]sfailed_at) execute function
note_%[1]sfailure();
`, d.Columns, timeOf("new."+d.Columns+"failed_at"))
	}
	return script
}

// Failures is the query for the failures that were committed at a destination: id and time.
func (d *Destination) Failures() string {
	if d.Brief {
		return "select id::text, at from failures where false"
	}
	return "select id::text, at from failures where columns = '" + d.Columns + "'"
}
