package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// require records a problem for each missing URL that a command needs.
func (l *loader) require(needs Needs, c *Config, global *scope, scopes []*scope) {
	if o := global.at("DATABASE_URL"); needs&NeedDatabase != 0 && !o.given {
		l.add(o.variable, nil, "is required; "+databaseForms+", or set "+o.variable+fileSuffix+" to the path of a file")
	}
	for i, s := range scopes {
		o, others := s.at("PUBLISH_URL"), ""
		if s.name != "" {
			others = ", or OUTBOX_PUBLISH_URL for all destinations"
		}
		if needs&NeedBrokers != 0 && !o.given && !c.Destinations[i].PublishURL.IsSet() {
			l.add(o.variable, nil, "is required"+others+"; "+brokerForms)
		}
	}
}

// checkConfig checks what the tags cannot express about the relay's own settings.
func checkConfig(c *Config, s *scope) {
	for _, key := range []string{"DATABASE_URL", "DATABASE_DIRECT_URL"} {
		if text := s.at(key).text; text != "" {
			s.badErr(key, CheckDatabase(text))
		}
	}
	_, err := sql.ParseTable(c.Table.Name)
	s.badIf(err != nil, "TABLE", "is not a table name; write table or schema.table, with double quotes around a name "+
		"that contains a dot")
	const longest = 63 // PostgreSQL's NAMEDATALEN - 1
	s.badIf(len(c.ListenChannel) > longest, "LISTEN_CHANNEL", "is too long; the name of a channel has at most %d bytes",
		longest)
	s.checkAddr("HTTP_ADDR", c.HTTPAddr)
	s.checkAddr("METRICS_ADDR", c.MetricsAddr)
	s.checkAddr("PPROF_ADDR", c.PprofAddr)
	if host, _, err := net.SplitHostPort(c.PprofAddr); err == nil {
		ip := net.ParseIP(host)
		s.badIf(ip == nil || !ip.IsLoopback(), "PPROF_ADDR", "must be a loopback address, because profiles show the "+
			"content of memory; write 127.0.0.1:6060 or [::1]:6060")
	}
	if strings.Contains(c.HTTPConfig, "\n") {
		s.loader.add(s.at("HTTP_CONFIG").variable, nil, // without the value, which may contain passwords
			"is not the path of a file; set the path itself, OUTBOX_HTTP_CONFIG=/etc/outbox-relay/web.yaml, without "+
				fileSuffix)
	}
}

// checkColumns refuses two meanings for one column that the relay writes. It returns the relay's names of the table's
// columns.
func checkColumns(c *Config, s *scope) map[string]string {
	table, parts := c.Table, map[string]string{}
	s.badIf(table.Columns["key"] != "" && table.Key != "", "COLUMNS",
		"maps key, which contradicts %s; remove one of them", s.at("KEY").variable)
	for _, ours := range slices.Concat(ourColumns, slices.Sorted(maps.Keys(table.Columns))) {
		theirs := table.Column(ours)
		other := parts[theirs]
		written := slices.Contains(writtenColumns, ours) || slices.Contains(writtenColumns, other)
		s.badIf(other != "" && other != ours && written, "COLUMNS", "uses the column %s for both %s and %s; each column "+
			"that the relay writes must be a separate one", theirs, other, ours)
		parts[theirs] = cmp.Or(other, ours)
	}
	if key := table.Key.source(); key.Kind == rowkey.Column {
		parts[key.Name] = "key"
	}
	return parts
}

// checkAddr checks an address to listen on. An empty address means no listener.
func (s *scope) checkAddr(key, addr string) {
	if addr == "" {
		return
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		s.bad(key, "is not an address; write host:port, or :9630 for all interfaces")
		return
	}
	n, err := strconv.Atoi(port)
	s.badIf(err != nil || n < 0 || n > 65535, key, "has a port that is not a number from 0 to 65535")
}

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
	} else if first, _, _ := strings.Cut(text, " "); strings.Contains(first, ";") || redactDSN(text) == redacted {
		return errors.New("is neither a PostgreSQL URL nor a DSN (JDBC's and ADO.NET's forms are not read); " + databaseForms)
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
