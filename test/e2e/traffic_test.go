package e2e

import (
	"strings"
	"testing"
)

// traffic is rows for one topic, numbered in the order of their insertion, and the relay that drains them.
type traffic struct {
	*table
	topic string
	keys  int // by turns
	rows  int // inserted so far
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

// backlog inserts a number of rows and returns when the relay is in the middle of them.
func (f *traffic) backlog(n int) {
	f.t.Helper()
	before := f.rows
	f.add(n)
	f.awaitRelayed(before + n/10)
}

// relayedFrom counts the relayed rows from a number on.
func (f *traffic) relayedFrom(number int) int {
	f.t.Helper()
	return f.count(isRelayed+" and (payload->>'n')::int >= $1", number)
}

// checkHeld waits until /readyz?verbose and the log say why the topic's rows are held, with all of the words, and
// checks that rows which come then are not relayed.
func (f *traffic) checkHeld(says ...string) {
	f.t.Helper()
	f.add(f.keys) // the relay has noticed nothing while it had nothing to do
	var body string
	defer func() {
		if f.t.Failed() {
			f.t.Logf("last /readyz: %s", body)
		}
	}()
	await(f.t, "/readyz?verbose says "+strings.Join(says, ", "), func() bool {
		f.relay.mustRun()
		_, body = f.relay.get("/readyz?verbose")
		return containsAll(body, says)
	})
	await(f.t, "the log says "+strings.Join(says, ", "), func() bool {
		for _, line := range f.relay.records("WARN") {
			if containsAll(line.Error, says) {
				return true
			}
		}
		return false
	})
	f.t.Log(body)
	later := f.rows
	f.add(1000)
	if relayed := f.relayedFrom(later); relayed > 0 {
		f.t.Errorf("%d rows were relayed meanwhile", relayed)
	}
}
