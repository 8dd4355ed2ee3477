package outbox

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// A role that may not use PL/pgSQL, or a database without it, tells nothing about marks: they may be possible.
func TestRehearseWithoutTheLanguage(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]string{
		"no right": "revoke usage on language plpgsql from public",
		"missing":  "drop extension plpgsql",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.NewDatabase(t)
			s.Exec(t, recommended())
			s.Exec(t, "insert into outbox_messages (topic, payload) select 't', '1' from generate_series(1, 3)")
			s.Exec(t, without)
			role := s.NewRole(t)
			s.Exec(t, "grant select, update on outbox_messages to "+role)
			table, err := Open(t.Context(), s.PoolAs(t, role), Config{Table: messages})
			if err != nil {
				t.Fatal(err)
			}
			page := tail(t, table, Query{}).Rows
			if refused, err := table.Rehearse(t.Context(), []*Row{&page[0], &page[1]}); err != nil || len(refused) > 0 {
				t.Errorf("refused: %v, %v", refused, err)
			}
		})
	}
}
