package relay

import (
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
		d := &database{}
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
