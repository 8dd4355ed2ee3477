package owner

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

func TestMembershipNumbers(t *testing.T) {
	t.Parallel()
	numbers := map[int]membership{}
	for _, shards := range []int{1, 2, 16, 1023, MaxShards} {
		for _, mapping := range []string{"", "a", "b"} {
			for _, able := range []bool{true, false} {
				m := membership{kindOf(shards, mapping), able}
				n := m.number()
				if got := memberOf(n); got != m {
					t.Errorf("%+v came back from %d as %+v", m, n, got)
				}
				if other, taken := numbers[n]; taken || n <= earlierLimit+MaxShards || n >= 1<<31 {
					t.Errorf("%+v has the number %d, as %+v", m, n, other)
				}
				numbers[n] = m
			}
		}
	}
	for n, want := range map[int]membership{
		16:                       {kind{shards: 16, earlier: true}, true},
		MaxShards:                {kind{shards: MaxShards, earlier: true}, true},
		earlierLimit + 16:        {kind{shards: 16, earlier: true}, false},
		earlierLimit + MaxShards: {kind{shards: MaxShards, earlier: true}, false},
	} {
		if got := memberOf(n); got != want {
			t.Errorf("%d is %+v, want %+v", n, got, want)
		}
	}
}

// Of two kinds that own shards side by side, exactly one continues; an earlier version takes precedence.
func TestOneOfTwoKindsGoesOn(t *testing.T) {
	t.Parallel()
	kinds := []kind{{shards: 16, earlier: true}, {shards: 32, earlier: true}, kindOf(16, "a"), kindOf(16, "b"), kindOf(8, "a"), kindOf(1, "a")}
	for _, a := range kinds {
		for _, b := range kinds {
			if a != b && a.before(b) == b.before(a) {
				t.Errorf("%+v and %+v", a, b)
			}
			if a.earlier && !b.earlier && !a.before(b) {
				t.Errorf("%+v gives way to %+v", a, b)
			}
		}
	}
}

// A replica that finds a row's shard or place in another way waits like one with another number of shards.
func TestDifferentMappings(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	with := func(mapping string) func(*tested) { return func(o *tested) { o.Mapping = mapping } }
	first, stop := startWith(t, s.URL, s.Name, 16, 5*time.Second, nil, with("by id"))
	await(t, first, "first owns", owns(16))
	second, _ := startWith(t, s.URL, s.Name, 16, 5*time.Second, nil, with("by key"))
	third, _ := startWith(t, s.URL, s.Name, 16, 5*time.Second, nil, with("by key"))
	for _, o := range []*tested{second, third} {
		state := await(t, o, "says why it waits", func(s State) bool { return s.Note != "" && s.Others == 1 && s.Replicas == 2 })
		if state.Holds() || state.Err != nil || !strings.Contains(state.Note, "Key") {
			t.Errorf("%+v", state)
		}
	}
	await(t, first, "first owns everything and sees the others", func(s State) bool { return owns(16)(s) && s.Others == 2 && s.Replicas == 1 })
	stop()
	await(t, second, "second takes half", owns(8))
	await(t, third, "third takes half", owns(8))
}

// earlier is a replica of the version that showed only its number of shards.
func earlier(t *testing.T, s *pgtest.Schema, shards int, held ...int) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select pg_advisory_lock_shared($1, -$2::integer)", classOf(s.Name), shards); err != nil {
		t.Fatal(err)
	}
	for _, shard := range held {
		if _, err := conn.Exec(t.Context(), "select pg_advisory_lock($1, $2)", classOf(s.Name), shard); err != nil {
			t.Fatal(err)
		}
	}
	end = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	t.Cleanup(end)
	return end
}

// In a rolling update the replicas of the new version wait until those of the earlier one are gone, even with the same number
// of shards.
func TestEarlierVersionGoesOnAlone(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	end := earlier(t, s, 4, 0, 1, 2, 3)
	first, _ := start(t, s.URL, s.Name, 4, 5*time.Second, nil)
	state := await(t, first, "says why it waits", func(s State) bool { return s.Note != "" })
	if state.Holds() || !strings.Contains(state.Note, "earlier version") {
		t.Errorf("%+v", state)
	}
	end()
	await(t, first, "takes over", owns(4))
}

// A replica of an earlier version that takes shards beside an owner, e.g. after a pause at a critical point, does not release
// them. The owner does.
func TestOwnerGivesWayToAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := pgtest.New(t)
	first, _ := start(t, s.URL, s.Name, 4, 5*time.Second, nil)
	await(t, first, "owns", owns(4))
	end := earlier(t, s, 8, 7)
	await(t, first, "gives everything back", func(s State) bool { return !s.Holds() && s.Note != "" })
	end()
	await(t, first, "owns again", owns(4))
}

// stalling is a connection that waits before one of its writes.
type stalling struct {
	net.Conn
	left          *atomic.Int64 // number of writes before it waits
	stalled, goOn chan struct{}
}

func (c *stalling) Write(b []byte) (int, error) {
	if c.left.Add(-1) == 0 {
		close(c.stalled)
		<-c.goOn
	}
	return c.Conn.Write(b)
}

// Wherever a replica pauses while it starts, it never owns shards beside a replica of another kind.
func TestTwoKindsNeverOwnSideBySide(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 12; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			s := pgtest.New(t)
			config, err := pgx.ParseConfig(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			left, stalled, goOn := new(atomic.Int64), make(chan struct{}), make(chan struct{})
			left.Store(int64(at))
			config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return &stalling{conn, left, stalled, goOn}, err
			}
			const ttl = 30 * time.Second
			slow, _ := startWith(t, s.URL, s.Name, 32, ttl, nil, func(o *tested) {
				o.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, config.Copy()) }
			})
			<-stalled
			other, _ := start(t, s.URL, s.Name, 16, ttl, nil)
			await(t, other, "has tried to own", func(s State) bool { return s.Holds() || s.Others == 1 })
			close(goOn)
			for deadline := time.After(20 * time.Second); ; {
				a, changedA := slow.State()
				b, changedB := other.State()
				if a.Holds() && b.Holds() {
					t.Fatalf("both own: %+v, %+v", a, b)
				}
				if a.Owned.Len() == 32 && b.Note != "" || b.Owned.Len() == 16 && a.Note != "" {
					break
				}
				select {
				case <-changedA:
				case <-changedB:
				case <-deadline:
					t.Fatalf("still %+v, %+v", a, b)
				}
			}
		})
	}
}
