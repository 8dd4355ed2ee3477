package outbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/sql"
)

// Rows of a database in another encoding are read as UTF-8, and any error is written to it, with a session of the
// relay's own and with any other.
func TestEncodings(t *testing.T) {
	t.Parallel()
	for encoding, stored := range map[string]string{
		"LATIN1":    `gr\u00f6\u00dfe\u20ac`,
		"SQL_ASCII": `gr\u00f6\u00dfe\u20ac`,
	} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			s := pgtest.NewDatabase(t, "encoding '"+encoding+"' template template0 locale 'C'")
			s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"})+
				"; alter table outbox_messages alter last_error type varchar(60)")
			lent := s.PoolWith(t, func(c *pgxpool.Config) {
				c.AfterConnect = nil
				delete(c.ConnConfig.RuntimeParams, "client_encoding")
			})
			for name, pool := range map[string]*pgxpool.Pool{"own": s.Pool, "lent": lent} {
				s.Exec(t, `delete from outbox_messages`)
				s.Exec(t, `insert into outbox_messages (topic, key, payload, headers) values ('reçu', 'clé', '{"nom": "José"}',
					'{"é": "è"}')`)
				table, err := Open(t.Context(), pool, Config{Table: sql.Table{Name: "outbox_messages"}})
				if err != nil {
					t.Fatal(err)
				}
				row := tail(t, table, Query{}).Rows[0]
				m := row.Message
				if m.Topic != "reçu" || string(m.Key) != "clé" || string(m.Payload) != `{"nom": "José"}` ||
					m.Headers[0].Name != "é" ||
					m.Headers[0].Value != "è" {
					t.Errorf("%s: %+v", name, m)
				}
				refusal := refusal(row.Identity(), 1, "größe€"+strings.Repeat("x", 100))
				if written, _, err := refuse(t.Context(), table, []Refusal{refusal}); err != nil || len(written) != 1 {
					t.Fatalf("%s: %d written, %v", name, len(written), err)
				}
				if got := pgtest.Value[string](t, s, "select last_error from outbox_messages"); !strings.HasPrefix(got,
					stored+"xxx") || len(got) < 60 {
					t.Errorf("%s: %q", name, got)
				}
			}
			_, found, err := Examine(t.Context(), s.Pool, Config{Table: sql.Table{Name: "outbox_messages"}})
			if err != nil || !slices.ContainsFunc(found, func(f finding.Finding) bool {
				return f.Check == "encoding" && f.Severity == finding.Warning && strings.Contains(f.Found, encoding)
			}) {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}

// A text is cut to the width of its column, as the server counts it.
func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[[2]string]string{
		{"UTF8", "größe€\xff\x00"}: "größe", {"SQL_ASCII", "größe€"}: `gr\u0`,
		{"LATIN1", "a€"}: `a\u20`, {"EUC_JP", "aé"}: `a\u00`, {"UTF8", ""}: "",
	} {
		table := &Table{mapping: &mapping{
			relation: &relation{Encoding: in[0]}, state: state{LastError: Column{Width: 5}},
		}}
		if got := table.Clean(in[1]); got != want {
			t.Errorf("%q in %s: %q, want %q", in[1], in[0], got, want)
		}
	}
}
