package relay

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// An answer that asks for the same statement again is no outage. Another one is, for these columns only, until a write
// succeeds.
func TestDatabaseAnswers(t *testing.T) {
	t.Parallel()
	for code, usable := range map[string]bool{
		"40001": true, "40P01": true, "57P01": false, "55000": false, "25006": false,
		"53100": false,
	} {
		d := &database{logger: slog.New(slog.DiscardHandler)}
		d.read(nil)
		d.wrote(1, &pgconn.PgError{Code: code})
		if got := d.state() == nil; got != usable || d.unwritten(1) == usable || d.unwritten(0) {
			t.Errorf("%s: usable %v, unwritten %v and %v", code, got, d.unwritten(1), d.unwritten(0))
		}
		if d.wrote(1, nil); d.state() != nil || d.unwritten(1) {
			t.Errorf("%s does not end", code)
		}
	}
}

// While commits wait for a synchronous standby, the log does not say that the database is back because there is nothing
// to commit any more: only a write that is confirmed shows it.
func TestDatabaseIsNotBackWithoutACommit(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	d := &database{logger: slog.New(slog.NewTextHandler(&log, nil))}
	isBack := func() bool { return strings.Contains(log.String(), "database is back") }
	d.wrote(0, &pgconn.PgError{Code: "57014"})
	d.confirm(true)
	d.wrote(0, nil) // the row was marked without a confirmation
	d.confirm(false)
	d.read(nil)
	d.confirm(false)
	d.rehearsed(0, nil)
	if d.state() != nil || isBack() {
		t.Errorf("without rows: %v\n%s", d.state(), log.String())
	}
	if d.wrote(0, nil); !isBack() {
		t.Errorf("after a commit:\n%s", log.String())
	}
	log.Reset()
	d.wrote(0, &pgconn.PgError{Code: "57P01"})
	if d.read(nil); isBack() {
		t.Error("back by a read")
	}
	if d.wrote(0, nil); !isBack() {
		t.Errorf("after the next outage:\n%s", log.String())
	}
}
