package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
	"github.com/outbox-relay/outbox-relay/sql"
)

// requireDatabase notes that the database's URL is missing.
func requireDatabase(_ *Config, global *scope, _ []*scope) {
	if o := global.origins["DATABASE_URL"]; !o.given {
		global.loader.add(Problem{Variable: o.variable,
			Text: "is required; give a PostgreSQL URL such as postgres://user:password@host:5432/database, or its file as " + o.variable +
				fileSuffix})
	}
}

// requireBrokers notes which URLs of brokers are missing.
func requireBrokers(cfg *Config, _ *scope, scopes []*scope) {
	for i, s := range scopes {
		o := s.origins["PUBLISH_URL"]
		if o.given || cfg.Destinations[i].PublishURL.IsSet() {
			continue
		}
		text := "is required; " + brokerForms
		if s.name != "" {
			text = "is required, or OUTBOX_PUBLISH_URL for all destinations; " + brokerForms
		}
		s.loader.add(Problem{Variable: o.variable, Text: text})
	}
}

// checkConfig checks what the tags cannot say about the relay's own settings.
func checkConfig(cfg *Config, s *scope) {
	checkDatabase(s, "DATABASE_URL", cfg.Database.URL)
	checkDatabase(s, "DATABASE_DIRECT_URL", cfg.Database.DirectURL)
	_, err := sql.ParseTable(cfg.Table.Name)
	if err != nil || strings.ContainsFunc(cfg.Table.Name, unicode.IsControl) {
		s.bad("TABLE", "is no table name; write table or schema.table, a name with a dot in double quotes")
	}
	checkColumns(cfg, s)
	const longest = 63 // PostgreSQL's NAMEDATALEN - 1
	if len(cfg.ListenChannel) > longest {
		s.bad("LISTEN_CHANNEL", "is too long for PostgreSQL; a channel's name has at most %d bytes", longest)
	}
	checkAddr(s, "HTTP_ADDR", cfg.HTTPAddr)
	checkAddr(s, "METRICS_ADDR", cfg.MetricsAddr)
	checkPprof(s, cfg.PprofAddr)
	if strings.Contains(cfg.HTTPConfig, "\n") {
		s.loader.add(Problem{Variable: s.origins["HTTP_CONFIG"].variable, // the value may hold passwords
			Text: "is not the path of a file; give the path itself, OUTBOX_HTTP_CONFIG=/etc/outbox-relay/web.yaml, without " + fileSuffix})
	}
}

// checkColumns refuses two meanings for one column that the relay writes.
func checkColumns(cfg *Config, s *scope) {
	table := cfg.Table
	if table.Columns["key"] != "" && table.Key.Kind != rowkey.Default {
		s.bad("COLUMNS", "maps key, which contradicts %s; remove one of them", s.origins["KEY"].variable)
	}
	for i, ours := range ourColumns {
		for _, other := range ourColumns[:i] {
			configured := table.Columns[ours] != "" || table.Columns[other] != ""
			written := slices.Contains(writtenColumns, ours) || slices.Contains(writtenColumns, other)
			if configured && written && table.Column(ours) == table.Column(other) {
				s.bad("COLUMNS", "takes the column %s for both %s and %s; what the relay writes needs a column of its own",
					table.Column(ours), other, ours)
			}
		}
	}
}

// checkAddr checks an address to listen on. Empty means that there is none.
func checkAddr(s *scope, key, addr string) {
	if addr == "" {
		return
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		s.bad(key, "is no address; write host:port, or :9630 for all interfaces")
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		s.bad(key, "has a port that is no number from 0 to 65535")
	}
}

// checkPprof refuses an address that others could reach.
func checkPprof(s *scope, addr string) {
	checkAddr(s, "PPROF_ADDR", addr)
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		s.bad("PPROF_ADDR", "must be a loopback address, since profiles show what is in memory; write 127.0.0.1:6060 or [::1]:6060")
	}
}

func checkDatabase(s *scope, key string, secret Secret) {
	if !secret.IsSet() {
		return
	}
	if err := CheckDatabase(secret.value); err != nil {
		s.bad(key, "%s", err)
	}
}

const databaseForms = "write postgres://user:password@host:5432/database or host=… user=… dbname=…"

// CheckDatabase checks a connection string. Its errors hold no part of it that could be a password.
func CheckDatabase(text string) error {
	if isDatabaseURL(text) {
		u, err := splitURL(text)
		if err != nil {
			return err
		}
		if u.hosts != "" { // else the environment or a parameter gives it
			if err := checkHosts(u.hosts); err != nil {
				return err
			}
		}
	} else if redactDSN(text) == redacted {
		return errors.New("is neither a PostgreSQL URL nor a DSN; " + databaseForms)
	}
	_, err := pgconn.ParseConfig(text)
	if err == nil {
		return nil
	}
	// pgx masks passwords in its own text only as well as it can. What it wraps is about one
	// parameter or a file, except for net/url's error, which is the whole text.
	cause := errors.Unwrap(err)
	if _, whole := errors.AsType[*url.Error](err); whole || cause == nil {
		return errors.New("cannot be used; check its parameters and the PG* variables")
	}
	return fmt.Errorf("cannot be used: %w", cause)
}
