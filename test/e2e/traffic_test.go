package e2e

import "testing"

// traffic is the rows for one topic, numbered in the order of their insertion, and the relay that drains them.
type traffic struct {
	*table
	topic string
	keys  int // number of keys, used in turns
	rows  int // number of rows inserted so far
	relay *relay
}

// startTraffic starts a relay of an empty table.
func startTraffic(t testing.TB, b broker, topic string, more ...string) *traffic {
	t.Helper()
	tb := newTable(t)
	return &traffic{table: tb, topic: topic, keys: 200, relay: startRelay(t, tb.env(b.url(), more...))}
}

// add inserts more rows.
func (f *traffic) add(n int) {
	f.t.Helper()
	f.insert(f.topic, f.rows, n, f.keys)
	f.rows += n
}
