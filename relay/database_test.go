package relay

import (
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// An answer that asks for the same statement again is no outage. One that accepts no write stops publishing for these columns only.
func TestDatabaseAnswers(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct{ usable, writable bool }{
		"40001": {true, true}, "40P01": {true, true}, "57P01": {false, true}, "55000": {false, false}, "42P10": {false, false},
		"42501": {false, false}, "25006": {false, false}, "55P03": {false, true},
	} {
		d := &database{logger: slog.New(slog.DiscardHandler)}
		d.read(nil)
		d.wrote(1, &pgconn.PgError{Code: code})
		if got := d.state() == nil; got != want.usable || d.unwritable(1) == want.writable || d.unwritable(0) {
			t.Errorf("%s: usable %v, writable %v and %v", code, got, !d.unwritable(1), !d.unwritable(0))
		}
		if d.wrote(1, nil); d.state() != nil || d.unwritable(1) {
			t.Errorf("%s does not end", code)
		}
	}
}
