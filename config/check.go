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

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/route"
)

// require records a problem for each missing URL that a command needs.
func (c *Config) require(needs Needs) {
	database := c.scope.at("DATABASE_URL")
	c.scope.badIf(needs&NeedDatabase != 0 && !database.given, database.key, "is required; %s, or set %s to the path "+
		"of a file", databaseForms, database.variable+fileSuffix)
	for _, d := range c.Destinations {
		broker := d.scope.at("PUBLISH_URL")
		d.scope.badIf(needs&NeedBrokers != 0 && !broker.given, broker.key, "is required; %s", brokerForms)
	}
}

// checkColumns refuses two meanings for one column that the relay writes. It returns the relay's names of the table's
// columns.
func checkColumns(c *Config) map[string]string {
	s, parts := c.scope, map[string]string{}
	s.badIf(c.Columns["key"] != "" && c.Key != "", "COLUMNS",
		"maps key, which contradicts %s; remove one of them", s.at("KEY").variable)
	for _, ours := range slices.Concat(ourColumns, slices.Sorted(maps.Keys(c.Columns))) {
		theirs := c.Column(ours)
		other := parts[theirs]
		written := slices.Contains(route.StateColumns, ours) || slices.Contains(route.StateColumns, other)
		s.badIf(other != "" && other != ours && written, "COLUMNS", "uses the column %s for both %s and %s; each "+
			"column that the relay writes must be a separate one", theirs, other, ours)
		parts[theirs] = cmp.Or(other, ours)
	}
	if name, is := strings.CutPrefix(c.Key, "column:"); is {
		parts[name] = "key"
	}
	return parts
}

// checkStates checks where the destinations keep their state: in the columns of the table, in the same columns as
// another destination, or in columns of their own. Columns that are the table's are not of its own: the destination
// divides the rows with others. parts are the relay's names of the table's columns.
func checkStates(c *Config, parts map[string]string) {
	shared := map[string]string{} // those of the table, in which destinations without their own keep their state
	for _, ours := range route.StateColumns {
		shared[ours] = c.Column(ours)
	}
	for i := range c.Destinations {
		d := &c.Destinations[i]
		s := d.scope
		if maps.Equal(d.Columns, shared) {
			d.Columns = nil
		}
		for _, column := range slices.Sorted(maps.Values(d.Columns)) {
			s.badIf(parts[column] != "", "COLUMNS", "uses the column %s, which is the table's %s; each column must "+
				"belong to the destination alone", column, parts[column])
		}
	}
}

// checkRelay reports what the relay itself would refuse.
func checkRelay(c *Config) {
	for _, d := range c.Destinations {
		c.Config.Destinations = append(c.Config.Destinations, d.Destination)
	}
	for _, p := range c.Config.Check() {
		s := c.scope
		if p.Destination >= 0 {
			s = c.Destinations[p.Destination].scope
		}
		s.bad(s.keyOf(p.Field), "%s", p.Text)
	}
}

// checkShares checks that the destinations' own shares of the common bounds fit into these bounds, and leave something
// for the other destinations.
func checkShares(c *Config) {
	check := func(key, unit string, common, least int64, of func(Destination) int64) {
		var own, sum int64
		for _, d := range c.Destinations {
			own, sum = own+of(d), sum+cmp.Or(of(d), least)
		}
		c.scope.badIf(own > 0 && sum > common, key, "is too small: the shares of all destinations, at least %d for "+
			"each, are %d %s in total; raise it, or lower a share", least, sum, unit)
	}
	check("MAX_IN_FLIGHT", "rows", int64(c.MaxInFlight), 1, func(d Destination) int64 { return int64(d.MaxInFlight) })
	check("MAX_IN_FLIGHT_BYTES", "bytes", c.MaxInFlightBytes, 1<<10,
		func(d Destination) int64 { return d.MaxInFlightBytes })
}

// dsnStart is how a keyword/value string begins. A semicolon in its first value is ADO.NET's.
var dsnStart = regexp.MustCompile(`^\s*[a-zA-Z_]+\s*=[^; ]*(\s|$)`)

const databaseForms = "write postgres://user:password@host:5432/database or host=… user=… dbname=…"

var inQuotes = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// ParseDatabase parses a connection string. Its errors contain no part of it that could be a password.
func ParseDatabase(text string) (*pgxpool.Config, error) {
	if quoted(text) {
		return nil, errQuoted
	}
	if isDatabaseURL(text) {
		u, err := splitURL(text)
		if err == nil && u.Host != "" { // otherwise the environment or a parameter gives it
			_, err = splitHosts(u.Host, "")
		}
		if err != nil {
			return nil, err
		}
	} else if !dsnStart.MatchString(text) {
		return nil, errors.New("is neither a PostgreSQL URL nor a DSN (JDBC's and ADO.NET's forms are not read); " +
			databaseForms)
	}
	parsed, err := pgxpool.ParseConfig(text)
	if err == nil {
		if unknown := pgsession.Unknown(parsed.ConnConfig.RuntimeParams); len(unknown) > 0 {
			return nil, fmt.Errorf("has parameters that PostgreSQL does not know: %s; leave out what is meant for the "+
				"driver of another program, and correct misspelt names", strings.Join(unknown, ", "))
		}
		return parsed, nil
	}
	// pgx does not mask passwords reliably in its own text. The error that it wraps is about one parameter, whose value
	// it quotes, or a file, except for net/url's error, which contains the whole text.
	cause := errors.Unwrap(err)
	if _, whole := errors.AsType[*url.Error](err); whole || cause == nil {
		return nil, errors.New("cannot be used; check its parameters and the PG* variables")
	}
	return nil, errors.New("cannot be used: " + inQuotes.ReplaceAllLiteralString(cause.Error(), `"`+hidden+`"`))
}
