package dispatch

import "fmt"

// Leftover describes what is remembered, or returns "" if that is nothing. Tests check that nothing is left when every
// row is settled.
func (d *Dispatch) Leftover() string {
	left := ""
	add := func(what string, n int) {
		if n > 0 {
			left += fmt.Sprintf("%d %s; ", n, what)
		}
	}
	add("in flight", len(d.inFlight))
	add("bytes", int(d.bytes))
	add("gone", len(d.gone))
	add("waits", len(d.waits.byKey)+len(d.waits.due))
	for _, w := range d.waits.byKey {
		left += fmt.Sprintf("%s; ", w)
	}
	for _, c := range []*crowd{d.waits.crowd, d.waits.former} {
		if c != nil {
			left += fmt.Sprintf("a crowd: %s; ", &c.Wait)
		}
	}
	if d.catch.low != nothing {
		left += fmt.Sprintf("a scan from %d on; ", d.catch.low)
	}
	add("failing", len(d.failing.rows))
	add("holds", len(d.holds.byFate)+len(d.holds.byTopic)+len(d.holds.due))
	add("to settle", len(d.settle)+len(d.refuse)+d.stuck())
	add("failures", d.outage.failures)
	for i := range d.lanes {
		add("queued", d.lanes[i].len())
	}
	for c, n := range d.waits.counts {
		add("counted as "+c, n)
	}
	return left
}

// Remembered returns how many keys and holds are remembered one by one.
func (d *Dispatch) Remembered() (keys, holds int) { return len(d.waits.byKey), len(d.holds.byFate) }

// String describes the wait, without its key.
func (w *Wait) String() string {
	state := [...]string{"resting", "held", "asked", "trial", "writing", "catching", "forgotten"}[w.state]
	return fmt.Sprintf("a key that is %s (%s) with the head %q at %d, passed over from %d, covered %d, again from %d",
		state, w.cause, w.headID, w.head, w.low, w.covered, w.next)
}
