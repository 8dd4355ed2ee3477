package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/logtest"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// Each row that fails is logged with its id and error. Ten thousand of them produce twenty lines a minute and one
// that says so.
func TestFailedRowsAreLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ rows, lines, more int }{
		"one": {1, 1, 0}, "twenty": {20, 20, 0}, "a hundred": {100, 20, 1}, "ten thousand": {10_000, 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				var log logtest.Log
				s.log = &log
				for i := range test.rows {
					id := fmt.Sprintf("row-%d", i)
					s.Answer(id, publisher.PermanentError("no", "%s is too large", id))
					s.table.insert(int64(i+1), id, fmt.Sprintf("secret-%d", i), "t")
				}
				stop := s.start()
				time.Sleep(30 * time.Second)
				s.table.insert(100_000, "well", "k", "t")
				time.Sleep(40 * time.Second)
				stop()
				said := log.String()
				if got := strings.Count(said, `msg="row failed" destination=default topic=t id=row-`); got != test.lines {
					t.Errorf("%d lines, want %d:\n%s", got, test.lines, said)
				}
				if got := strings.Count(said, "about=rows"); got != test.more {
					t.Errorf("%d lines for the others, want %d", got, test.more)
				}
				if !strings.Contains(said, "is too large") || strings.Contains(said, "secret") {
					t.Error("the error is missing, or a key is there")
				}
			})
		})
	}
}

// A refusal that will be tried again is recorded in the table. Where the table cannot record it, the log reports it,
// once for each row.
func TestRefusalsAreLoggedWhereTheTableCannotKeepThem(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]bool{"kept": false, "forgotten": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				var log logtest.Log
				s.log, s.table.forgetsErrors = &log, forgets
				for i := range 3 {
					id := fmt.Sprintf("row-%d", i)
					s.Answer(id, publisher.RefusedError("no", "%s is refused", id), publisher.RefusedError("no", "%s is refused", id))
					s.table.insert(int64(i+1), id, fmt.Sprintf("secret-%d", i), "t")
				}
				stop := s.start()
				time.Sleep(5 * time.Minute)
				stop()
				said, want := log.String(), 0
				if forgets {
					want = 3
				}
				if got := strings.Count(said, "level=WARN msg=\"row refused"); got != want || strings.Contains(said, "secret") {
					t.Errorf("%d lines, want %d:\n%s", got, want, said)
				}
			})
		})
	}
}
