package relay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// verdicts returns the error text of each check, or "" for a check that succeeds.
func verdicts(r *Relay) map[string]string {
	found := map[string]string{}
	for _, check := range r.Ready() {
		found[check.Name] = ""
		if check.Err != nil {
			found[check.Name] = check.Err.Error()
		}
	}
	return found
}

// throughNetwork makes a replica reach its database over a network that belongs to the test.
func throughNetwork(t *testing.T, s *pgtest.Schema, network *publishertest.Network) func(*tested) {
	return func(c *tested) {
		c.Pool = s.PoolWith(t, func(p *pgxpool.Config) { p.ConnConfig.DialFunc = network.Dial })
		config := s.Pool.Config().ConnConfig
		config.DialFunc = network.Dial
		c.connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
		c.OwnerTTL = time.Second
	}
}

// A replica that owns nothing also reports whether the database can be reached, because its control connection has
// ended. New connections are refused, or get no answer, with or without rows to relay. The first answer makes the check
// succeed again, even for a replica that is a standby from then on.
func TestDatabaseOutageIsLogged(t *testing.T) {
	t.Parallel()
	for name, weather := range map[string]func(*publishertest.Network){
		"stopped": (*publishertest.Network).Cut, "frozen": (*publishertest.Network).Freeze,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b, network := pgtest.New(t), publishertest.NewBroker(), publishertest.NewNetwork()
			s.Exec(t, pgtest.ShapeA)
			r := replica(t, s, b, throughNetwork(t, s, network))
			start(t, r)
			s.Exec(t, pgtest.Insert, "t", `{"n": 1}`)
			b.Await(t, 1)
			eventually(t, "up", func() bool { return r.databaseDown() == nil && notReady(r) == "" })
			weather(network)
			eventually(t, "down", func() bool {
				return r.databaseDown() != nil && verdicts(r)["database"] != "" && !firstState(r).Holds()
			})
			other := replica(t, s, b, nil)
			start(t, other)
			eventually(t, "another one owns all", func() bool { return firstState(other).Owned.Len() == 16 })
			if r.databaseDown() == nil {
				t.Error("the database counts as reached")
			}
			network.Restore()
			eventually(t, "up again", func() bool { return r.databaseDown() == nil && notReady(r) == "" })
		})
	}
}

// A missing table or a missing privilege is not an outage of the database.
func TestMissingTableIsNoOutage(t *testing.T) {
	t.Parallel()
	s, b := pgtest.New(t), publishertest.NewBroker()
	r := replica(t, s, b, func(c *tested) {
		c.Destinations[0].Publisher = b.Publisher()
		b.Down()
	})
	start(t, r)
	eventually(t, "each check is reported", func() bool {
		now := verdicts(r)
		return strings.Contains(now["table"], "outbox-relay schema") && now["database"] == "" &&
			now["destination default"] != ""
	})
	if err := r.databaseDown(); err != nil {
		t.Error(err)
	}
}

// While the database is unavailable from the start, the database is named and not the table.
func TestDatabaseAwayFromTheStart(t *testing.T) {
	t.Parallel()
	s, b, network := pgtest.New(t), publishertest.NewBroker(), publishertest.NewNetwork()
	network.Cut()
	r := replica(t, s, b, throughNetwork(t, s, network))
	start(t, r)
	eventually(t, "the database is named", func() bool {
		now := verdicts(r)
		return strings.Contains(now["database"], "refused") && now["table"] == errUnknown.Error()
	})
}
