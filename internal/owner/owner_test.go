package owner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// tested is a replica of one group.
type tested struct {
	*Owner
	*Group
	table     string
	strangers []*Group
	ended     atomic.Int64 // how often Run has returned
}

// start runs a replica until the test or the returned function ends it. Like a relay with nothing in flight, it
// releases leaving shards at once.
func start(t *testing.T, url, table string, shards int, ttl time.Duration, network *publishertest.Network) (
	*tested, func(),
) {
	t.Helper()
	return startWith(t, url, table, shards, ttl, network, func(*tested) {})
}

// startWith is start with additional configuration.
func startWith(t *testing.T, url, table string, shards int, ttl time.Duration, network *publishertest.Network,
	configure func(*tested),
) (*tested, func()) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if network != nil {
		config.DialFunc = network.Dial
	}
	o := &tested{Owner: New(), Group: &Group{Name: "default", Mapping: "mapping"}, table: table}
	o.Shards, o.TTL, o.Logger = shards, ttl, slog.New(slog.DiscardHandler)
	o.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	configure(o)
	return o, o.run(t, o.Group)
}

// run runs the replica with some groups.
func (o *tested) run(t *testing.T, groups ...*Group) (stop func()) {
	o.Open(o.table, slices.Concat(groups, o.strangers))
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			o.Run(ctx)
			o.ended.Add(1)
		}
	})
	group.Go(func() {
		for {
			states, changed := o.States()
			for i, g := range groups {
				g.Left(states[i].Leaving)
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return stop
}

// stater is an owner, or the part of one that a group has.
type stater interface {
	State() (State, <-chan struct{})
}

// await waits until the state meets a condition.
func await(t *testing.T, o stater, what string, want func(State) bool) State {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		state, changed := o.State()
		if want(state) {
			return state
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s: still %+v", what, state)
		}
	}
}

func owns(n int) func(State) bool {
	return func(s State) bool { return s.Owned.Len() == n && s.Leaving.Len() == 0 }
}

func TestOneShardIsActiveAndStandby(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	first, stop := start(t, s.URL, s.Name, 1, 5*time.Second, nil)
	await(t, first, "first owns", owns(1))
	second, _ := start(t, s.URL, s.Name, 1, 5*time.Second, nil)
	await(t, second, "second sees both", func(s State) bool { return s.Replicas == 2 })
	if state, _ := second.State(); state.Holds() || !second.Trusted().IsZero() {
		t.Fatal("two owners at once")
	}
	other, _ := start(t, s.URL, s.Name+"_other", 1, 5*time.Second, nil)
	await(t, other, "another table's owner", owns(1))
	stop()
	if !first.Trusted().IsZero() {
		t.Error("still trusted after it released its shards")
	}
	await(t, second, "second takes over", owns(1))
}

// Replicas come and go; each holds its share, and no two ever hold the same shard.
func TestFairShare(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	first, _ := start(t, s.URL, s.Name, 16, 5*time.Second, nil)
	await(t, first, "alone it owns everything", owns(16))
	second, _ := start(t, s.URL, s.Name, 16, 5*time.Second, nil)
	kept, _ := first.State()
	await(t, first, "half is left", owns(8))
	await(t, second, "the other half", owns(8))
	third, stop := start(t, s.URL, s.Name, 16, 5*time.Second, nil)
	await(t, third, "the third's share", owns(5))
	either := func(s State) bool { return owns(5)(s) || owns(6)(s) }
	a, b := await(t, first, "five or six", either), await(t, second, "five or six", either)
	if a.Owned.Without(kept.Owned) != (Set{}) {
		t.Error("the first did not keep shards that it had")
	}
	if c, _ := third.State(); a.Owned.And(b.Owned) != (Set{}) || a.Owned.And(c.Owned) != (Set{}) {
		t.Error("two replicas own the same shard")
	}
	stop()
	await(t, first, "eight again", owns(8))
	await(t, second, "eight again", owns(8))
}

// However many replicas there are, none has two shards more than another one.
func TestNoReplicaWithoutAShard(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	var replicas []*tested
	for range 5 {
		one, _ := start(t, s.URL, s.Name, 16, 5*time.Second, nil)
		replicas = append(replicas, one)
	}
	for _, one := range replicas {
		await(t, one, "three or four of sixteen shards", func(s State) bool {
			return s.Replicas == 5 && (owns(3)(s) || owns(4)(s)) && s.Unowned == 0
		})
	}
}

// giving is a connection that calls a function before it sends a statement that releases shards.
type giving struct {
	net.Conn
	gives func()
}

func (c *giving) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(Given)) {
		c.gives()
	}
	return c.Conn.Write(b)
}

// Shards are released once, even if the engines report again that they have left them while they are being released, as
// each turn of their loops does, and if this replica takes the shards again at once because the other one has gone.
func TestShardsAreReleasedOnce(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var first *tested
	var given atomic.Int64
	peers := make(chan func(), 2) // called while shards are released, one at a time
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &giving{conn, func() {
			state, _ := first.State()
			first.Left(state.Leaving)
			if given.Add(1) > 2 {
				return // the end of the test
			}
			if state.Leaving == (Set{}) {
				t.Error("shards are released that are relayed")
			}
			(<-peers)()
		}}, err
	}
	startWith(t, s.URL, s.Name, 16, 5*time.Second, nil, func(o *tested) {
		first = o
		o.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
	})
	await(t, first, "owns everything", owns(16))
	_, stop := start(t, s.URL, s.Name, 16, 5*time.Second, nil)
	peers <- stop
	await(t, first, "releases half of them", func(State) bool { return given.Load() > 0 })
	await(t, first, "owns everything again", owns(16))
	third, _ := start(t, s.URL, s.Name, 16, 5*time.Second, nil)
	peers <- func() {}
	await(t, third, "owns half of them", owns(8))
}

// A replica with another number of shards would compute other shards for the same rows: it waits.
func TestDifferentNumbersOfShards(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	first, stop := start(t, s.URL, s.Name, 16, 5*time.Second, nil)
	await(t, first, "first owns", owns(16))
	second, _ := start(t, s.URL, s.Name, 4, 5*time.Second, nil)
	state := await(t, second, "says why it waits", func(s State) bool { return s.Note != "" })
	if state.Holds() || state.Err != nil || state.Unowned != 0 {
		t.Errorf("%+v", state)
	}
	third, leave := start(t, s.URL, s.Name, 32, 5*time.Second, nil)
	state = await(t, third, "waits too", func(s State) bool { return s.Note != "" })
	// no row is without an owner, whatever the number of shards
	if state.Holds() || state.Err != nil || state.Unowned != 0 {
		t.Errorf("%+v", state)
	}
	leave()
	await(t, first, "first still owns everything", owns(16))
	stop()
	await(t, second, "second takes over", owns(4))
}

func TestTerminatedSessionIsReplaced(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	first, _ := start(t, s.URL, s.Name, 4, 5*time.Second, nil)
	await(t, first, "owns", owns(4))
	if n := pgtest.Value[int](t, s, `select count(pg_terminate_backend(pid)) from pg_locks
		where locktype = 'advisory' and objid = 0 and classid = ($1::bigint & 4294967295)::oid`, classOf(s.Name, "")); n != 1 {
		t.Fatalf("%d owners in pg_locks", n)
	}
	await(t, first, "owns again", func(s State) bool { return s.Owned.Len() == 4 && first.ended.Load() > 0 })
	if first.Trusted().IsZero() {
		t.Error("not trusted")
	}
}

// A replica that cannot publish releases its shards to one that can, after a while, and takes part again when it can.
// If none can, they share as usual.
func TestReplicaThatCannotPublish(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	const ttl = time.Second
	var broken [2]atomic.Bool
	unable := func(i int) func(*tested) {
		return func(o *tested) {
			o.Unable = broken[i].Load
		}
	}
	broken[0].Store(true)
	first, _ := startWith(t, s.URL, s.Name, 16, ttl, nil, unable(0))
	await(t, first, "alone it owns everything", owns(16))
	broken[1].Store(true)
	second, _ := startWith(t, s.URL, s.Name, 16, ttl, nil, unable(1))
	await(t, first, "none can publish: they share", owns(8))
	await(t, second, "none can publish: they share", owns(8))

	changed := time.Now()
	broken[1].Store(false)
	await(t, first, "the first says so", func(s State) bool { return s.Unable && s.Replicas == 2 })
	await(t, second, "the second takes all", owns(16))
	if took := time.Since(changed); took < Patience*ttl {
		t.Errorf("shards were given away after %v", took)
	}
	if state, _ := first.State(); state.Holds() || !state.Unable {
		t.Errorf("%+v", state)
	}
	// It may come back to a server that has forgotten what was written last. Nothing that is known of the shards may be
	// used there, although it has none at the moment.
	if first.ended.Load() > 0 {
		t.Error("it ended when it gave the last shard away")
	}
	s.Exec(t, `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and classid = $1
		and pid not in (select pid from pg_locks where locktype = 'advisory' and objid = 0 and classid = $1)`,
		uint32(classOf(s.Name, "")))
	await(t, first, "it ends with the session", func(State) bool { return first.ended.Load() > 0 })
	third, stop := startWith(t, s.URL, s.Name, 16, ttl, nil, unable(0))
	await(t, third, "a newcomer that cannot publish takes none", func(s State) bool {
		return s.Unable && s.Replicas == 3 && !s.Holds()
	})
	stop()

	broken[0].Store(false)
	first.Look()
	await(t, first, "it takes part again", owns(8))
	await(t, second, "it takes part again", owns(8))
}

// When the server ends a session, this is noticed at once, not at the next look.
func TestEndedSessionIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	const ttl = 10 * time.Minute // looks are then a second apart
	o, _ := start(t, s.URL, s.Name, 1, ttl, nil)
	const ends = 5
	var slowest time.Duration
	for range ends {
		await(t, o, "owns", owns(1))
		before := o.ended.Load()
		s.Exec(t, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and objid = 0 and classid = "+
			"($1::bigint & "+
			"4294967295)::oid", classOf(s.Name, ""))
		ended := time.Now()
		await(t, o, "knows that it owns nothing", func(s State) bool { return !s.Holds() || o.ended.Load() > before })
		slowest = max(slowest, time.Since(ended))
	}
	t.Logf("noticed after at most %v", slowest)
	if slowest > lookEver/2 {
		t.Errorf("noticed only after %v", slowest)
	}
}

// An owner that is cut off silently stops trusting itself before the server lets another in.
func TestSilentOwnerEndsBeforeItsSuccessorBegins(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	network := publishertest.NewNetwork()
	first, _ := start(t, s.URL, s.Name, 1, 2*time.Second, network)
	await(t, first, "first owns", owns(1))
	second, _ := start(t, s.URL, s.Name, 1, 2*time.Second, nil)
	await(t, second, "second stands by", func(s State) bool { return s.Replicas == 2 })
	network.Freeze()
	trusted := first.Trusted()
	await(t, second, "second takes over", owns(1))
	if taken := time.Now(); !trusted.Before(taken) {
		t.Errorf("the old owner trusted itself %v longer than the server did", trusted.Sub(taken))
	}
	network.Restore()
	await(t, first, "first stands by", func(s State) bool { return !s.Holds() && s.Err == nil && s.Replicas == 2 })
}

func TestUnreachableDatabaseIsReported(t *testing.T) {
	t.Parallel()
	network := publishertest.NewNetwork()
	network.Cut()
	o, _ := start(t, "postgres://nobody@127.0.0.1:1/none?sslmode=disable", "t", 16, time.Second, network)
	state := await(t, o, "reports", func(s State) bool { return s.Err != nil })
	if _, ok := errors.AsType[net.Error](state.Err); !ok && state.Holds() {
		t.Errorf("state %+v", state)
	}
}
