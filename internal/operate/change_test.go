package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/pgsession"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// connectTo returns how to connect to the server of a schema with a session of one's own.
func connectTo(s *pgtest.Schema) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			err = pgsession.Own(ctx, conn)
		}
		return conn, err
	}
}

// choose chooses rows until the test ends.
func choose(t testing.TB, o *Outbox, change Change, selection Selection) *Choice {
	t.Helper()
	choice, err := o.Choose(t.Context(), change, selection)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { choice.Close(context.Background()) })
	return choice
}

// apply makes a change to all chosen rows and returns how each was changed, in order.
func apply(t testing.TB, c *Choice) (Result, []string) {
	t.Helper()
	var how []string
	result, err := c.Apply(t.Context(), "", Progress{Done: func(int64) {}, Row: func(row Chosen) error {
		how = append(how, row.Destination+" "+row.Topic+" "+row.Action)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return result, how
}

const some = `insert into outbox_messages (topic, key, payload, attempt, last_error, failed_at, relayed_at)
	select 'topic' || n % 3, 'k' || n % 5, '{}', 6, 'broker said NO ' || n,
		case when n % 2 = 0 then now() - make_interval(hours => n) end, case when n % 2 = 1 then now() - make_interval(hours
		=> n) end
	from generate_series(1, 60) n`

// TestSelection chooses among 30 failed rows, one every two hours, by each of the conditions and by several.
func TestSelection(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, some)
	o := open(t, s, "zero topic0", "rest !topic0")
	id := pgtest.Value[string](t, s, "select id::text from outbox_messages where last_error = 'broker said NO 2'")
	key, ago := "k0", func(hours float64) time.Time { return time.Now().Add(-time.Duration(hours * float64(time.Hour))) }
	for want, selection := range map[string]Selection{
		"30": {}, "1": {IDs: []string{id, "00000000-0000-0000-0000-000000000000"}}, "10": {Topics: []string{"topic1"}},
		"20": {Topics: []string{"topic*", "!topic1"}},
		"6":  {Key: &key}, "7": {Since: ago(15.5)}, "23": {Until: ago(15.5)}, "3": {Since: ago(15.5), Until: ago(9)},
		"11":      {Error: "no 2"[:4] + ""},
		"10 zero": {Destination: "zero"}, "20 rest": {Destination: "rest"},
		"2": {Key: &key, Topics: []string{"topic1"}, Destination: "rest"},
	} {
		if want == "11" { // numbers 2, 20 and 22 to 28: five of them are even
			selection.Error, want = "said no 2", "6"
		}
		got := choose(t, o, Retry(), selection).Rows
		if count, _, _ := strings.Cut(want, " "); fmt.Sprint(got) != count {
			t.Errorf("%+v chooses %d rows, not %s", selection, got, count)
		}
	}
}

// TestRetry gives failed rows all their attempts again, and changes no other rows.
func TestRetry(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, some)
	choice := choose(t, open(t, s), Retry(), Selection{Topics: []string{"topic1"}})
	var listed []string
	if err := choice.Each(t.Context(), func(row Chosen) error {
		listed = append(listed, row.ID)
		return nil
	}); err != nil ||
		len(listed) != 10 {
		t.Fatalf("listed %d rows, not 10 (%v)", len(listed), err)
	}
	result, how := apply(t, choice)
	if result != (Result{Changed: 10}) || !slices.Equal(how, slices.Repeat([]string{"default topic1 retried"}, 10)) {
		t.Errorf("%+v: %v", result, how)
	}
	for query, want := range map[string]int64{
		"failed_at is null and last_error is null and attempt = 1 and relayed_at is null and topic = 'topic1'": 10,
		"failed_at is not null and attempt = 6 and last_error is not null and topic <> 'topic1'":               20,
		"relayed_at is not null and attempt = 6 and last_error is not null":                                    30,
	} {
		if got := pgtest.Value[int64](t, s, "select count(*) from outbox_messages where "+query); got != want {
			t.Errorf("%d rows with %s, not %d", got, query, want)
		}
	}
}

// TestDiscard deletes failed rows, or keeps them with the reason.
func TestDiscard(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, some)
	s.Exec(t, "alter table outbox_messages alter last_error type varchar(40)")
	o := open(t, s)
	if result, how := apply(t,
		choose(t, o, Discard(false, ""), Selection{Topics: []string{"topic0"}})); result.Changed != 10 ||
		how[0] != "default topic0 deleted" {
		t.Errorf("%+v: %v", result, how)
	}
	if result, how := apply(t, choose(t, o, Discard(true, "known, and of no matter"),
		Selection{Topics: []string{"topic1"}})); result.Changed != 10 || how[0] != "default topic1 kept" {
		t.Errorf("%+v: %v", result, how)
	}
	if got := pgtest.Value[string](t, s,
		"select string_agg(distinct last_error, '') from outbox_messages where failed_at is not null and "+
			"relayed_at is not null"); got !=
		"bro [discarded: known, and of no matter]" {
		t.Errorf("the last error says %q", got)
	}
	if got := choose(t, o, Retry(), Selection{}).Rows; got != 10 {
		t.Errorf("%d failed rows are left, not 10", got)
	}
	r, err := o.ReportOf(t.Context(), Selection{}, patience)
	if err != nil || *r.Destinations[0].Failed != 10 {
		t.Errorf("the report counts %d failed rows, not 10 (%v)", *r.Destinations[0].Failed, err)
	}
}

// TestKeepWithoutRelayed refuses to keep a failed row where nothing could show that it was discarded, rather than
// delete it.
func TestKeepWithoutRelayed(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, "alter table outbox_messages drop relayed_at")
	s.Exec(t, "insert into outbox_messages (topic, payload, failed_at) values ('t', '{}', now())")
	table, err := outbox.Open(t.Context(), s.Pool,
		outbox.Config{Table: sql.Table{Name: "outbox_messages"}, Shards: 16, Delete: true})
	if err != nil {
		t.Fatal(err)
	}
	if table, err = table.For(outbox.View{Name: "default"}); err != nil {
		t.Fatal(err)
	}
	o := &Outbox{Pool: s.Pool, Connect: connectTo(s), Shards: 16, Views: []*outbox.Table{table}}
	if _, err := o.Choose(t.Context(), Discard(true, "known"), Selection{}); err == nil ||
		!strings.Contains(err.Error(), "leave out --keep") {
		t.Errorf("a row that cannot be kept: %v", err)
	}
	if result, how := apply(t, choose(t, o, Discard(false, ""), Selection{})); result.Changed != 1 ||
		how[0] != "default t deleted" {
		t.Errorf("%+v: %v", result, how)
	}
}

// TestLockedRows changes the unlocked rows, reports the locked ones, and changes those when it is run again.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, some)
	tx, err := s.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(),
		"select from outbox_messages where topic = 'topic2' and failed_at is not null for update"); err != nil {
		t.Fatal(err)
	}
	o := open(t, s)
	if result, _ := apply(t, choose(t, o, Retry(), Selection{})); result != (Result{Changed: 20, Locked: 10}) {
		t.Errorf("while ten rows are locked: %+v", result)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result, _ := apply(t, choose(t, o, Retry(), Selection{})); result != (Result{Changed: 10}) {
		t.Errorf("afterwards: %+v", result)
	}
}

// TestChangedMeanwhile leaves rows alone that have changed since they were chosen.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, some)
	choice := choose(t, open(t, s), Discard(false, ""), Selection{})
	s.Exec(t, "update outbox_messages set failed_at = null where topic = 'topic0' and failed_at is not null")
	s.Exec(t, "update outbox_messages set failed_at = now() + interval '1 minute' where topic = 'topic1' and failed_at "+
		"is not null")
	if result, _ := apply(t, choice); result != (Result{Changed: 10}) {
		t.Errorf("%+v", result)
	}
}

// TestManyRows changes 100,000 rows in small transactions, is stopped in the middle, and continues when it is run
// again.
func TestManyRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shape string
		all   int64
	}{"A": {pgtest.ShapeA, 100_000}, "C, without indexes": {pgtest.ShapeC, 20_000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			s.Exec(t, c.shape)
			all := c.all
			s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at, relayed_at)
				select 'x', '{}', now() at time zone 'UTC', now() at time zone 'UTC', now() at time zone 'UTC' from
				generate_series(1, $1)`, all)
			o := open(t, s)
			choice := choose(t, o, Replay(), Selection{})
			ctx, stop := context.WithCancel(t.Context())
			transactions := 0
			result, err := choice.Apply(ctx, "", Progress{Row: func(Chosen) error { return nil }, Done: func(done int64) {
				if transactions++; done >= all/4 {
					stop()
				}
			}})
			if err != nil || result.Changed != all/4 || result.Left != all-all/4 || transactions < 5 {
				t.Errorf("stopped after %d transactions: %+v (%v)", transactions, result, err)
			}
			if got := pgtest.Value[int64](t, s,
				"select count(*) from outbox_messages where relayed_at is null"); got != result.Changed {
				t.Errorf("%d rows were changed, not %d", got, result.Changed)
			}
			if again, _ := apply(t, choose(t, o, Replay(), Selection{})); again != (Result{Changed: all - all/4}) {
				t.Errorf("run again: %+v", again)
			}
		})
	}
}

// TestReplayStopped stops a replay of rows that have an order when a part of them was changed: it says how many are
// left.
func TestReplayStopped(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, "insert into outbox_messages (topic, key, payload, relayed_at) select 'x', 'k', '{}', now() from "+
		"generate_series(1, 5000)")
	choice := choose(t, open(t, s), Replay(), Selection{})
	ctx, stop := context.WithCancel(t.Context())
	result, err := choice.Apply(ctx, "", Progress{Row: func(Chosen) error { return nil }, Done: func(int64) { stop() }})
	if err != nil || result.Changed == 0 || result.Changed+result.Left != 5000 {
		t.Errorf("%+v (%v)", result, err)
	}
}

// TestPartitioned changes rows whose ids are not known to be unique.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	s.Exec(t, `create table outbox_messages (id bigint not null, topic text not null, payload jsonb not null, attempt
		integer, relayed_at
	timestamptz, failed_at timestamptz,
		last_error text, inserted_at timestamptz not null default now()) partition by range (inserted_at);
		create table p1 partition of outbox_messages for values from (minvalue) to ('2020-01-01');
		create table p2 partition of outbox_messages for values from ('2020-01-01') to (maxvalue)`)
	s.Exec(t, `insert into outbox_messages (id, topic, payload, failed_at, inserted_at) select n, 'x', '{}', now(),
		d::timestamptz
		from generate_series(1, 700) n, unnest(array['2019-05-05', '2024-05-05']) d`)
	o := open(t, s)
	if result, _ := apply(t,
		choose(t, o, Retry(), Selection{IDs: []string{"1", "2"}})); result != (Result{Changed: 4}) {
		t.Errorf("two ids, each twice: %+v", result)
	}
	if result, _ := apply(t, choose(t, o, Discard(false, ""), Selection{})); result != (Result{Changed: 1396}) {
		t.Errorf("the others: %+v", result)
	}
}

// TestSessionOfAPooler changes rows over a connection of a pooler in session mode, whose settings are not the relay's.
func TestSessionOfAPooler(t *testing.T) {
	t.Parallel()
	s := recommended(t)
	s.Exec(t, some)
	o := open(t, s)
	o.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.URL) } // as if of a pooler
	if result, _ := apply(t, choose(t, o, Retry(), Selection{})); result != (Result{Changed: 30}) {
		t.Errorf("%+v", result)
	}
}
