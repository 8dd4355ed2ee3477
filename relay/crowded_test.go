package relay

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// However many keys answers block, a bounded number of them is remembered. The others are passed over, and follow in order.
func TestBlockedKeysAreBounded(t *testing.T) {
	for name, answer := range map[string]error{
		"refused":     publisher.RefusedError("no", "no"),
		"no leader":   publisher.UnavailableError(publisher.ScopeMessage, "no leader", "no leader"),
		"no topic":    publisher.TopologyError("no topic", "no topic"),
		"unavailable": publisher.UnavailableError(publisher.ScopeDestination, "away", "away"),
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *sim) {
				const most, keys, each = 20, 400, 3
				s.limits.keys, s.limits.Batch, s.limits.Rows = most, 50, 100
				p := &stuckPublisher{Publisher: s.Broker.Publisher(), answer: func(*publisher.Message) error { return answer }}
				stuck := s.destination("stuck", s.Broker, "stuck*")
				stuck.Publisher, stuck.MaxAttempts, stuck.BackoffMax = p, 1<<20, time.Second
				s.destinations = []*Destination{stuck, s.destinations[0]}
				for i := range keys * each {
					key := stuckKey + strconv.Itoa(i%keys)
					s.table.insert(int64(2*i+1), fmt.Sprintf("%s-%d", key, i/keys), key, key)
					s.table.insert(int64(2*i+2), fmt.Sprintf("k%d-%d", i%keys, i/keys), "k"+strconv.Itoa(i%keys), "t")
				}
				stop := s.start()
				defer stop()
				for range 60 {
					time.Sleep(500 * time.Millisecond)
					synctest.Wait()
					if blocked := len(s.loop.dispatch.blocks.byKey); blocked > most+s.limits.Rows {
						t.Fatalf("%d keys are remembered, in flight are at most %d", blocked, s.limits.Rows)
					}
					if topics := len(s.loop.dispatch.topics); topics > most {
						t.Fatalf("%d topics are remembered", topics)
					}
					s.wakes <- sourceDoorbell // the loop goes on after this
				}
				if got := len(s.Received("t")); got != keys*each {
					t.Errorf("%d of %d rows flow beside them", got, keys*each)
				}
				p.freed.Store(true)
				s.table.drained(t, 2*time.Minute)
				checkOrder(t, s.All())
			})
		})
	}
}

// Keys may be long: what is remembered of them is bounded in bytes too.
func TestRememberedKeysAreBoundedInBytes(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	d, now := testDispatch(t), time.Now()
	var known failedKeys
	for i := range 3 * maxBlockedBytes >> 20 {
		k := key{text: strconv.Itoa(i) + long}
		known.add(k.text, int64(i))
		if !d.full() {
			d.blocks.block(k, d.destinations[0], causeRetry, int64(i))
		}
		if !known.has(k) {
			t.Error("a failed key is not known")
		}
	}
	if d.blocks.bytes > maxBlockedBytes+2*len(long) || known.bytes > maxBlockedBytes {
		t.Errorf("%d bytes of blocked keys, %d of failed ones", d.blocks.bytes, known.bytes)
	}
	for _, b := range d.blocks.byKey {
		d.blocks.waitUntil(b, now)
		d.blocks.remove(b)
	}
	if d.blocks.bytes != 0 || d.full() {
		t.Errorf("%d bytes are left", d.blocks.bytes)
	}
}
