package relay

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
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
					if blocked := len(s.loop.dispatch.waits.byKey); blocked > most+s.limits.Rows {
						t.Fatalf("%d keys are remembered, in flight are at most %d", blocked, s.limits.Rows)
					}
					if topics := len(s.loop.dispatch.holds.byFate); topics > most {
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

// Ids and keys may be long: what is remembered of them is bounded in bytes too.
func TestWhatIsRememberedIsBoundedInBytes(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	d, now := testDispatch(t), time.Now()
	var known failedKeys
	for i := range 3 * mostWaitBytes >> 20 {
		text := strconv.Itoa(i) + long
		known.add(text, int64(i))
		if !known.has(key{text: text}) {
			t.Error("a failed key is not known")
		}
		r := &row{Row: &outbox.Row{Message: publisher.Message{ID: text}, Position: outbox.At(int64(i), text)}, hash: uint64(i) << 40}
		d.restAlone(r, causeUnavailable, now)
	}
	if d.waits.bytes > mostWaitBytes+2*len(long) || known.bytes > mostFailedBytes {
		t.Errorf("%d bytes of heads, %d of failed keys", d.waits.bytes, known.bytes)
	}
	for _, w := range d.waits.byKey {
		d.waits.remove(w)
	}
	if d.waits.bytes != 0 || d.waits.full() {
		t.Errorf("%d bytes are left", d.waits.bytes)
	}
}
