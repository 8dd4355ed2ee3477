package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
)

// require records a problem for each missing URL that a command needs.
func (c *Config) require(needs Needs) {
	database := c.scope.at("DATABASE_URL")
	c.scope.badIf(needs&NeedDatabase != 0 && !database.given, database.key, "is required; %s, or set %s to the path "+
		"of a file", databaseForms, database.variable+fileSuffix)
	for _, d := range c.Destinations {
		broker, others := d.scope.at("PUBLISH_URL"), ""
		if d.scope != c.scope {
			others = ", or OUTBOX_PUBLISH_URL for all destinations"
		}
		d.scope.badIf(needs&NeedBrokers != 0 && !broker.given, broker.key, "is required%s; %s", others, brokerForms)
	}
}

// checkColumns refuses two meanings for one column that the relay writes. It returns the relay's names of the table's
// columns.
func checkColumns(c *Config) map[string]string {
	s, table, parts := c.scope, c.Table, map[string]string{}
	s.badIf(table.Columns["key"] != "" && table.Key != "", "COLUMNS",
		"maps key, which contradicts %s; remove one of them", s.at("KEY").variable)
	for _, ours := range slices.Concat(ourColumns, slices.Sorted(maps.Keys(table.Columns))) {
		theirs := table.Column(ours)
		other := parts[theirs]
		written := slices.Contains(writtenColumns, ours) || slices.Contains(writtenColumns, other)
		s.badIf(other != "" && other != ours && written, "COLUMNS", "uses the column %s for both %s and %s; each "+
			"column that the relay writes must be a separate one", theirs, other, ours)
		parts[theirs] = cmp.Or(other, ours)
	}
	if name, is := strings.CutPrefix(table.Key, "column:"); is {
		parts[name] = "key"
	}
	return parts
}

// dsnStart is how a keyword/value string begins. A semicolon in its first value is ADO.NET's.
var dsnStart = regexp.MustCompile(`^\s*[a-zA-Z_]+\s*=[^; ]*(\s|$)`)

const databaseForms = "write postgres://user:password@host:5432/database or host=… user=… dbname=…"

// CheckDatabase checks a connection string. Its errors contain no part of it that could be a password.
func CheckDatabase(text string) error {
	if quoted(text) {
		return errQuoted
	}
	if isDatabaseURL(text) {
		u, err := splitURL(text)
		if err == nil && u.hosts != "" { // otherwise the environment or a parameter gives it
			err = checkHosts(u.hosts)
		}
		if err != nil {
			return err
		}
	} else if !dsnStart.MatchString(text) {
		return errors.New("is neither a PostgreSQL URL nor a DSN (JDBC's and ADO.NET's forms are not read); " +
			databaseForms)
	}
	parsed, err := pgconn.ParseConfig(text)
	if err == nil {
		if unknown := pgsession.Unknown(parsed.RuntimeParams); len(unknown) > 0 {
			return fmt.Errorf("has parameters that PostgreSQL does not know: %s; leave out what is meant for the "+
				"driver of another program, and correct misspelt names", strings.Join(unknown, ", "))
		}
		return nil
	}
	// pgx does not mask passwords reliably in its own text. The error that it wraps is about one parameter or a file,
	// except for net/url's error, which contains the whole text.
	cause := errors.Unwrap(err)
	if _, whole := errors.AsType[*url.Error](err); whole || cause == nil {
		return errors.New("cannot be used; check its parameters and the PG* variables")
	}
	return fmt.Errorf("cannot be used: %w", cause)
}
