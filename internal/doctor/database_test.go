package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// The user's names of the two ways to the database.
const (
	variableURL    = "OUTBOX_DATABASE_URL"
	variableDirect = "OUTBOX_DATABASE_DIRECT_URL"
)

// A failed connection comes with its remedy, in one line.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err           error
		check, remedy string
	}{
		"password": {
			&pgconn.PgError{Code: "28P01", Message: "password authentication failed"}, "authentication",
			"user and password, database, sslmode and its certificates in OUTBOX_DATABASE_URL",
		},
		"role":        {&pgconn.PgError{Code: "28000"}, "authentication", "pg_hba.conf"},
		"connect":     {&pgconn.PgError{Code: "42501"}, "reach", "connect on the database"},
		"slots":       {&pgconn.PgError{Code: "53300"}, "reach", "max_connections"},
		"name":        {&net.DNSError{Err: "no such host", Name: "db"}, "reach", "name service"},
		"time":        {context.DeadlineExceeded, "reach", "network policies"},
		"certificate": {x509.CertificateInvalidError{Reason: x509.Expired}, "reach", "sslmode and its certificates"},
		"protocol":    {errors.New("unexpected message"), "reach", "a PostgreSQL server"},
	} {
		f := unreachable(variableURL, fmt.Errorf("connect: %w", c.err))
		if f.Severity != finding.Error || f.Check != c.check || !strings.Contains(f.Remedy, c.remedy) || f.Found == "" ||
			strings.Contains(f.Found, "\n") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	well := server{version: "17.2", number: 170002, commit: "on", sessions: 10, slots: 97, protected: true}
	for name, c := range map[string]struct {
		change   func(*server)
		severity finding.Severity
		check    string
		says     string
	}{
		"well": {func(*server) {}, finding.OK, "", ""},
		"old": {func(s *server) {
			s.number, s.version = 130009, "13.9"
		}, finding.Error, "version", "needs 14 or newer"},
		"read-only":     {func(s *server) { s.readOnly = true }, finding.Error, "read_only", "are read-only"},
		"commit":        {func(s *server) { s.commit = "off" }, finding.Warning, "settings", "forgets marks"},
		"not protected": {func(s *server) { s.protected = false }, finding.Warning, "encryption", "not verified"},
		"connections":   {func(s *server) { s.sessions = 95 }, finding.Warning, "connections", "2 of 97"},
		"overcommitted": {func(s *server) { s.sessions = 99 }, finding.Warning, "connections", "0 of 97"},
	} {
		s := well
		c.change(&s)
		found := s.findings(variableURL)
		if found[0].Severity != finding.OK || found[0].Check != "reach" {
			t.Errorf("%s: %+v", name, found[0])
		}
		switch rest := found[1:]; {
		case c.says == "" && len(rest) > 0:
			t.Errorf("%s: unexpected %+v", name, rest)
		case c.says != "" && (len(rest) != 1 || rest[0].Severity != c.severity || rest[0].Check != c.check ||
			!strings.Contains(rest[0].Found, c.says) || rest[0].Remedy == ""):
			t.Errorf("%s: %+v", name, rest)
		}
	}
}
