package examples

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// Each message is processed once, however often, in whichever order and by however many consumers at a time it is
// received, also when processing it fails at first.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	statements := claimed(t, "TestOnce")
	if len(statements) != 2 {
		t.Fatalf("%d blocks of SQL, not the table and its cleaning", len(statements))
	}
	s.Exec(t, statements[0].text)
	s.Exec(t, "create table balance (customer text primary key, cents bigint not null)")
	s.Exec(t, "insert into balance values ('ada', 0)")
	pay := func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "update balance set cents = cents + 1 where customer = 'ada'")
		return err
	}
	broken := errors.New("broken")
	if err := Once(t.Context(), s.Pool, "billing", "0", func(tx pgx.Tx) error {
		return errors.Join(pay(tx), broken)
	}); !errors.Is(err,
		broken) {
		t.Fatalf("%v", err)
	}
	const messages, deliveries = 100, 5
	failures := make(chan error, messages*deliveries)
	var group sync.WaitGroup
	for i := range messages * deliveries {
		group.Go(func() { failures <- Once(t.Context(), s.Pool, "billing", strconv.Itoa(i%messages), pay) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Once(t.Context(), s.Pool, "mails", "0", pay); err != nil { // another consumer of the same messages
		t.Fatal(err)
	}
	if cents := pgtest.Value[int](t, s, "select cents from balance"); cents != messages+1 {
		t.Errorf("%d messages were processed, not %d", cents, messages+1)
	}
	s.Exec(t, "update processed_messages set processed_at = now() - interval '31 days' where id::int < 40")
	s.Exec(t, statements[1].text)
	if left := pgtest.Value[string](t, s, "select string_agg(distinct consumer, ' ') || ' ' || count(*) from "+
		"processed_messages"); left != fmt.Sprintf("billing %d", messages-40) {
		t.Errorf("after the cleaning: %s", left)
	}
}

// The statement of each language notes a message once.
func TestOnceStatements(t *testing.T) {
	t.Parallel()
	for _, sample := range claimed(t, "TestOnceStatements") {
		s := pgtest.New(t)
		s.Exec(t, claimed(t, "TestOnce")[0].text)
		n := 0
		statement := placeholder.ReplaceAllStringFunc(insert.FindString(sample.text), func(string) string {
			n++
			return "$" + strconv.Itoa(n)
		})
		for _, want := range []int64{1, 0} {
			noted, err := s.Pool.Exec(t.Context(), statement, "billing", "0")
			if err != nil || noted.RowsAffected() != want {
				t.Errorf("%s: %q noted %d messages, not %d: %v", sample.language, statement, noted.RowsAffected(), want, err)
			}
		}
	}
}
