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

// checkShares checks that the destinations' shares of the common bounds fit into these. Each destination has some.
func checkShares(c *Config) {
	rows, bytes := 0, int64(0)
	for _, d := range c.Destinations {
		rows, bytes = rows+max(1, d.MaxInFlight), bytes+max(1<<10, d.MaxInFlightBytes)
	}
	const text = "is too small: the shares of all destinations are %d in total; raise it, or lower a share"
	c.scope.badIf(rows > c.MaxInFlight, "MAX_IN_FLIGHT", text, rows)
	c.scope.badIf(bytes > c.MaxInFlightBytes, "MAX_IN_FLIGHT_BYTES", text, bytes)
}

// dsnStart is how a keyword/value string begins. A semicolon in its first value is ADO.NET's.
var dsnStart = regexp.MustCompile(`^\s*[a-zA-Z_]+\s*=[^; ]*(\s|$)`)

const databaseForms = "write postgres://user:password@host:5432/database or host=… user=… dbname=…"

var inQuotes = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// ParseDatabase parses a connection string. Its errors contain no part of it that could be a password.
func ParseDatabase(text string) (*pgxpool.Config, error) {
	if isDatabaseURL(text) {
		if _, err := splitURL(text); err != nil {
			return nil, err
		}
	} else if !dsnStart.MatchString(text) {
		return nil, errors.New("is neither a PostgreSQL URL nor a DSN (quotes around it are part of the value, and " +
			"JDBC's and ADO.NET's forms are not read); " + databaseForms)
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
		return nil, errors.New("cannot be used; check host and port, the parameters and the PG* variables")
	}
	return nil, errors.New("cannot be used: " + inQuotes.ReplaceAllLiteralString(cause.Error(), `"`+hidden+`"`))
}
