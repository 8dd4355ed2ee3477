package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/sql"
)

// requireURLs notes which of the settings without which nothing can be relayed are missing.
func requireURLs(cfg *Config, global *scope, scopes []*scope) {
	if o := global.origins["DATABASE_URL"]; !o.given {
		global.loader.add(Problem{Variable: o.variable, Text: "is required; give a PostgreSQL URL such as postgres://user:password@host:5432/database, or its file as " + o.variable + fileSuffix})
	}
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
	for key, secret := range map[string]Secret{"DATABASE_URL": cfg.Database.URL, "DATABASE_DIRECT_URL": cfg.Database.DirectURL} {
		if secret.IsSet() {
			if err := checkDatabase(secret.value); err != nil {
				s.bad(key, "%s", err)
			}
		}
	}
	if _, err := sql.ParseTable(cfg.Table.Name); err != nil {
		s.bad("TABLE", "is no table name; write table or schema.table, a name with a dot in double quotes")
	}
	checkColumns(cfg, s)
	const longest = 63 // PostgreSQL's NAMEDATALEN - 1
	if len(cfg.ListenChannel) > longest {
		s.bad("LISTEN_CHANNEL", "is too long for PostgreSQL; a channel's name has at most %d bytes", longest)
	}
	checkAddr(s, cfg.HTTPAddr)
}

// checkColumns refuses two meanings for one column that the relay writes.
func checkColumns(cfg *Config, s *scope) {
	columns := cfg.Table.Columns
	if _, mapped := columns["key"]; mapped && cfg.Table.Key.Kind != KeyAuto {
		s.bad("COLUMNS", "maps key, which contradicts %s; remove one of them", s.origins["KEY"].variable)
	}
	for _, written := range []string{"relayed_at", "failed_at", "last_error", "attempt", "updated_at"} {
		for _, other := range ourColumns {
			_, configured := columns[written]
			_, otherConfigured := columns[other]
			if written != other && (configured || otherConfigured) && cfg.Table.Column(written) == cfg.Table.Column(other) &&
				(!slices.Contains(ourColumns[4:8], other) || written < other) {
				s.bad("COLUMNS", "gives the column %s to both %s and %s; the relay writes %s, so it needs a column of its own",
					cfg.Table.Column(written), written, other, written)
			}
		}
	}
}

func checkAddr(s *scope, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		s.bad("HTTP_ADDR", "is no address; write host:port, or :9630 for all interfaces")
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		s.bad("HTTP_ADDR", "has a port that is no number from 0 to 65535")
	}
}

// checkDatabase checks the form of a connection string. Its errors hold no part of it that could be
// a password.
func checkDatabase(text string) error {
	forms := "write postgres://user:password@host:5432/database or host=… user=… dbname=…"
	if strings.Contains(text, "://") {
		u, err := splitURL(text)
		switch {
		case errors.Is(err, errNoURL):
			return errors.New("is neither a PostgreSQL URL nor a DSN; " + forms)
		case err != nil:
			return err
		case u.scheme != "postgres" && u.scheme != "postgresql":
			return fmt.Errorf("has the unknown scheme %q; %s", u.scheme, forms)
		}
		if u.hosts != "" { // libpq's environment fills it in
			if err := checkHosts(u.hosts); err != nil {
				return err
			}
		}
	} else if redactDSN(text) == redacted {
		return errors.New("is neither a PostgreSQL URL nor a DSN; " + forms)
	}
	if _, err := pgconn.ParseConfig(text); err != nil {
		// pgx masks passwords in its text as well as it can; what it wraps holds a parameter or a path.
		if cause := errors.Unwrap(err); cause != nil && !strings.Contains(text, "://") {
			return fmt.Errorf("cannot be used: %w", cause)
		}
		return errors.New("cannot be used; check its parameters and the PG* variables")
	}
	return nil
}
