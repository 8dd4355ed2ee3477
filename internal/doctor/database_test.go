package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
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
			"correct user and password in OUTBOX_DATABASE_URL",
		},
		"role":        {&pgconn.PgError{Code: "28000"}, "authentication", "pg_hba.conf"},
		"database":    {&pgconn.PgError{Code: "3D000"}, "reach", "correct the database's name"},
		"connect":     {&pgconn.PgError{Code: "42501"}, "rights", "grant connect"},
		"slots":       {&pgconn.PgError{Code: "53300"}, "connections", "max_connections"},
		"starting":    {&pgconn.PgError{Code: "57P03"}, "reach", "wait until"},
		"anything":    {&pgconn.PgError{Code: "XX000"}, "reach", "server's log"},
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
	well := server{version: "17.2", number: 170002, commit: "on", sessions: 10, slots: 97}
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
		"standby":       {func(s *server) { s.standby, s.readOnly = true, true }, finding.Error, "read_only", "is a standby"},
		"read-only":     {func(s *server) { s.readOnly = true }, finding.Error, "read_only", "are read-only"},
		"commit":        {func(s *server) { s.commit = "off" }, finding.Warning, "settings", "forgets marks"},
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

// Rows of a column without a time zone that were written in local time lie in the future east of Greenwich, and west of
// it in the past by whole half hours, though one of the last transactions has written them.
func TestMisdated(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for age, want := range map[time.Duration][2]time.Duration{
		time.Minute: {}, -8 * time.Hour: {8 * time.Hour}, 5 * time.Hour: {0, 5 * time.Hour},
		5*time.Hour + 30*time.Minute + time.Second: {0, 5*time.Hour + 30*time.Minute},
		5*time.Hour + 10*time.Minute:               {}, 40 * time.Hour: {},
	} {
		page := outbox.Page{Visible: outbox.Visible{Now: now, Unassigned: 5000}, Rows: make([]outbox.Row, 4)}
		for i, writer := range []uint64{4990, 3000, 4980} { // the last row has no time
			page.Rows[i].Writer, page.Rows[i].Message.Inserted = writer, now.Add(-2*time.Minute)
		}
		page.Rows[0].Message.Inserted = now.Add(-age)
		page.Rows[1].Message.Inserted = now.Add(-5 * time.Hour) // it was written long ago
		if ahead, local := misdated(&page); ahead != want[0] || local != want[1] {
			t.Errorf("%v old: %v, %v", age, ahead, local)
		}
		page.Rows[2].Writer = 4995 // where little is written, a row that waits for hours is among the last ones, too
		if _, local := misdated(&page); local != 0 {
			t.Errorf("%v old before a young row: %v", age, local)
		}
	}
}
