package e2e

import (
	"encoding/json"
	"testing"
	"time"
)

// delivery is a message as a consumer received it.
type delivery struct {
	topic     string
	id        string // message-id
	key       string
	keyless   bool
	body      string
	null      bool // no body at all: a Kafka tombstone
	headers   map[string]string
	timestamp time.Time // time in the message, zero without one
	partition int       // messages of one partition are in order
}

// number returns the field n of the payload.
func (d delivery) number(t testing.TB) int {
	t.Helper()
	var payload struct{ N int }
	if err := json.Unmarshal([]byte(d.body), &payload); err != nil {
		t.Fatalf("payload %q of message %s: %v", d.body, d.id, err)
	}
	return payload.N
}

// check compares what arrived with what was committed: no row is missing, there is no other message, nothing arrived
// twice, and the messages of each key are in order.
func check(t testing.TB, tb *table, got []delivery) {
	t.Helper()
	checkBounded(t, tb, got, 0)
}

// checkBounded is check for a run with faults. At each fault the rows in flight may be repeated; first deliveries must
// be in order nevertheless.
func checkBounded(t testing.TB, tb *table, got []delivery, faults int) {
	t.Helper()
	checkWithin(t, tb, got, faults*maxInFlight)
}

// checkWithin is check for a run in which up to the given number of messages may have arrived twice.
func checkWithin(t testing.TB, tb *table, got []delivery, most int) {
	t.Helper()
	wanted := tb.committed()
	seen := make(map[string]bool, len(wanted))
	last := map[string]int{}
	partition := map[string]int{}
	wrong, duplicates := 0, 0
	for _, d := range got {
		n := d.number(t)
		switch {
		case n < 0:
			t.Errorf("message %s was rolled back and has arrived", d.id)
		case !wanted[d.id]:
			t.Errorf("message %s (number %d) was never committed", d.id, n)
		}
		if before, known := partition[d.key]; known && before != d.partition {
			t.Errorf("key %s is in partitions %d and %d", d.key, before, d.partition)
		}
		partition[d.key] = d.partition
		if seen[d.id] {
			duplicates++
			continue
		}
		seen[d.id] = true
		if before, known := last[d.key]; known && n < before {
			if wrong++; wrong <= 10 {
				t.Errorf("key %s: number %d arrived after %d", d.key, n, before)
			}
		}
		last[d.key] = n
	}
	missing := 0
	for id := range wanted {
		if !seen[id] {
			missing++
		}
	}
	if missing > 0 || wrong > 0 {
		t.Errorf("%d of %d messages are missing, %d out of order", missing, len(wanted), wrong)
	}
	t.Logf("%d messages, %d duplicates", len(seen), duplicates)
	if duplicates > most {
		t.Errorf("%d duplicates, more than %d", duplicates, most)
	}
}
