package owner

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

func TestMembershipNumbers(t *testing.T) {
	t.Parallel()
	numbers := map[membership]bool{}
	for _, shards := range []int{1, 2, 16, 1023, MaxShards} {
		for _, mapping := range []string{"", "a", "b"} {
			for _, able := range []bool{true, false} {
				m := membershipOf(shards, mapping, able)
				if m.Of() != shards || m.Able() != able || !m.like(membershipOf(shards, mapping, !able)) {
					t.Errorf("%d of %d shards, %v, came back as %d, %v", m, shards, able, m.Of(), m.Able())
				}
				if numbers[m] || m <= MaxShards {
					t.Errorf("the number %d is taken", m)
				}
				numbers[m] = true
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
		state := await(t, o, "says why it waits", func(s State) bool {
			return s.Note != "" && s.Others == 1 && s.Replicas == 2
		})
		if state.Holds() || state.Err != nil || !strings.Contains(state.Note, "Key") {
			t.Errorf("%+v", state)
		}
	}
	await(t, first, "first owns everything and sees the others", func(s State) bool {
		return owns(16)(s) && s.Others == 2 && s.Replicas == 1
	})
	stop()
	await(t, second, "second takes half", owns(8))
	await(t, third, "third takes half", owns(8))
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
