package relay

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/owner"
	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
	"github.com/outbox-relay/outbox-relay/sql"
)

// firstState returns the state of the first group of destinations.
func firstState(r *Relay) owner.State {
	states, _ := r.owner.States()
	if len(states) == 0 {
		return owner.State{}
	}
	return states[0]
}

// noteOf returns the note of one of the checks of readiness.
func noteOf(r *Relay, check string) string {
	for _, c := range r.Ready() {
		if c.Name == check {
			return c.Note
		}
	}
	return ""
}

// owned returns the number of shards that a relay owns, or -1 while it has shards to release.
func owned(r *Relay) int {
	state := firstState(r)
	if state.Leaving.Len() > 0 {
		return -1
	}
	return state.Owned.Len()
}

// withoutKey makes the recommended table in the form that it may have had before the key column was added.
func withoutKey(t *testing.T) *pgtest.Schema {
	t.Helper()
	s := pgtest.New(t)
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	s.Exec(t, "alter table outbox_messages drop column key")
	return s
}

const insertKeyed = `insert into outbox_messages (topic, key, payload) select 't', 'k' || i % 500, to_jsonb(i) from
	generate_series(1, $1::int) i`

func allRelayed(t *testing.T, s *pgtest.Schema) bool {
	return pgtest.Value[int](t, s, "select count(*) from outbox_messages where relayed_at is null") == 0
}

// A key column is added while one replica runs, and a second replica starts that has seen the column from the
// beginning. The first replica reads the catalogue when it meets the second, and they share the work: no row is
// published twice, and none remains.
func TestKeyColumnComesBeforeASecondReplica(t *testing.T) {
	t.Parallel()
	s, b := withoutKey(t), publishertest.NewBroker()
	first, second := replica(t, s, b, nil), replica(t, s, b, nil)
	start(t, first)
	eventually(t, "the first owns everything", func() bool { return owned(first) == 16 })
	s.Exec(t, "alter table outbox_messages add column key text")
	start(t, second)
	s.Exec(t, insertKeyed, 2000)
	eventually(t, "both own half", func() bool { return owned(first) == 8 && owned(second) == 8 })
	s.Exec(t, insertKeyed, 2000)
	eventually(t, "all is relayed", func() bool { return allRelayed(t, s) })
	if got := len(b.All()); got != 4000 {
		t.Errorf("%d deliveries of 4000 rows", got)
	}
}

// The mapping changes while several replicas relay rows. Whichever replica notices the change first, all of them adopt
// the new mapping.
func TestKeyColumnComesToManyReplicas(t *testing.T) {
	t.Parallel()
	s, b := withoutKey(t), publishertest.NewBroker()
	replicas := []*Relay{replica(t, s, b, nil), replica(t, s, b, nil), replica(t, s, b, nil)}
	replicas[1].looks = 50 * time.Millisecond
	for _, r := range replicas {
		start(t, r)
	}
	shared := func() bool {
		n := 0
		for _, r := range replicas {
			if state := firstState(r); state.Others > 0 || state.Replicas != 3 {
				return false
			}
			n += owned(r)
		}
		return n == 16
	}
	eventually(t, "they share", shared)
	s.Exec(t, `insert into outbox_messages (topic, payload) select 't', to_jsonb(i) from generate_series(1, 2000) i`)
	s.Exec(t, "alter table outbox_messages add column key text")
	s.Exec(t, insertKeyed, 2000)
	eventually(t, "they share again, by key", func() bool {
		for _, r := range replicas {
			if table, _ := r.state(); table == nil || !strings.Contains(table.Groups()[0].Mapping, "key") {
				return false
			}
		}
		return shared()
	})
	s.Exec(t, insertKeyed, 2000)
	eventually(t, "all is relayed", func() bool { return allRelayed(t, s) })
	if got := len(b.All()); got != 6000 {
		t.Errorf("%d deliveries of 6000 rows", got)
	}
}

// A rolling update changes the source of the key: the new replica is ready, reports why it waits, and takes over when
// the old one has stopped.
func TestRollingUpdateOfTheKey(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, sql.Schema(sql.Table{Name: "outbox_messages"}))
	old := replica(t, s, b, nil)
	stop := start(t, old)
	eventually(t, "the old one owns everything", func() bool { return owned(old) == 16 })
	changed := func(c *tested) { c.Key = "topic" }
	replicas := []*Relay{replica(t, s, b, changed), replica(t, s, b, changed)}
	for _, r := range replicas {
		start(t, r)
		eventually(t, "a new one says why it waits", func() bool {
			checks := r.Ready()
			return len(checks) > 2 && checks[2].Err == nil && strings.Contains(checks[2].Note, "Key")
		})
	}
	s.Exec(t, insertKeyed, 1000)
	eventually(t, "the old one relays all", func() bool { return allRelayed(t, s) })
	if owned(old) != 16 {
		t.Error("the old one has given shards away")
	}
	stop()
	eventually(t, "the new ones share", func() bool { return owned(replicas[0]) == 8 && owned(replicas[1]) == 8 })
	s.Exec(t, insertKeyed, 1000)
	eventually(t, "they relay all", func() bool { return allRelayed(t, s) })
	if got := len(b.All()); got != 2000 {
		t.Errorf("%d deliveries of 2000 rows", got)
	}
}

// A change that does not affect the shards of rows is also followed, at the latest at the beginning of the next term.
func TestNewColumnIsFollowedInTheNextTerm(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	s.Exec(t, pgtest.ShapeB)
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = s.Name
	r := replica(t, s, b, func(c *tested) {
		c.connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	})
	start(t, r)
	eventually(t, "it owns everything", func() bool { return owned(r) == 16 })
	s.Exec(t, "alter table outbox_messages add column available_at timestamp")
	s.Exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", s.Name)
	eventually(t, "the column is used", func() bool {
		table, _ := r.state()
		return table != nil && table.Delays() && owned(r) == 16
	})
	s.Exec(t, `insert into outbox_messages (topic, payload, inserted_at, updated_at, available_at) values ('later', '1',
		now() at time zone 'UTC', now() at time zone 'UTC', 'infinity')`)
	s.Exec(t, pgtest.Insert, "now", "2")
	if got := b.Await(t, 1); got[0].Topic != "now" {
		t.Errorf("the first delivery is to %s", got[0].Topic)
	}
	eventually(t, "the row that is due is marked", func() bool {
		return fmt.Sprint(pgtest.Value[[]string](t, s,
			"select array_agg(topic) from outbox_messages where relayed_at is not null")) == "[now]"
	})
}

// A relay relies on the doorbell's trigger from its creation until it is dropped or disabled.
func TestFollowsTheDoorbell(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	table := sql.Table{Schema: s.Name, Name: "outbox_messages"}
	s.Exec(t, sql.Schema(table))
	r := replica(t, s, publishertest.NewBroker(), func(c *tested) { c.ListenChannel = s.Name })
	r.looks = 20 * time.Millisecond
	start(t, r)
	eventually(t, "listening", r.listener.Up)
	for _, step := range []struct {
		change string
		armed  bool
	}{
		{sql.Doorbell(table, s.Name), true},
		{"alter table outbox_messages disable trigger outbox_relay_doorbell", false},
		{"alter table outbox_messages enable trigger outbox_relay_doorbell", true},
		{sql.Doorbell(table, s.Name+"_other"), false},
		{sql.Doorbell(table, s.Name), true},
		{"drop trigger outbox_relay_doorbell on outbox_messages", false},
	} {
		s.Exec(t, step.change, pgx.QueryExecModeSimpleProtocol)
		eventually(t, fmt.Sprintf("armed %t after %.60s", step.armed, step.change),
			func() bool { return !r.listener.Armed().IsZero() == step.armed })
	}
}
