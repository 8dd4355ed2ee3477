package relay

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A partial is a topic of which some rows cannot be published now, those of a partition without a leader for
// example. Each of their keys waits for itself, as nobody knows which of them share a fate; what is
// said of them is said by topic.
type partial struct {
	err   error
	since time.Time
	next  time.Time // when the last row of it that was held is tried again
	told  []string  // what it was told to be held for, in short
	back  time.Time // when a row of it was last accepted that had been held
}

const (
	// partialAfter is how long rows are held before it is told: leaders move in less.
	partialAfter = 2 * time.Second
	// partialOver is how long after no row has been held again it is over.
	partialOver = 5 * time.Second
)

// holdPart notes that a row of a topic was held until the next try, and that others may go.
func (a *answers) holdPart(r *row, c cause, err error, next time.Time) *partial {
	name := topicOf(r)
	p := a.partials[name]
	if p == nil {
		name = name.kept()
		p = &partial{since: a.now}
		a.partials[name] = p
	}
	p.err, p.next = err, next
	if short := publisher.ShortOf(err); a.now.Sub(p.since) >= partialAfter && !slices.Contains(p.told, short) {
		p.told = append(p.told, short)
		a.tell(partHeld, name, c, err, a.now)
	}
	return p
}

// partGoes lets the other keys of a topic be tried soon when one that was held goes on: the same partition may hold thousands of them,
// whose pauses are long.
func (a *answers) partGoes(p *partial) {
	if a.now.Sub(p.back) < shortestHold {
		return
	}
	p.back = a.now
	for _, b := range a.blocks.due {
		if soon := a.now.Add(rand.N(shortestHold)); b.part == p && soon.Before(b.due) {
			b.due = soon
		}
	}
	heap.Init(&a.blocks.due)
}

// endPartials forgets the topics of which no row was held lately.
func (d *dispatch) endPartials(now time.Time) {
	if now.Sub(d.partialsSeen) < partialOver/10 {
		return // there may be many
	}
	d.partialsSeen = now
	d.notices.others(d.logger, now)
	for name, p := range d.partials {
		if now.Sub(p.next) < partialOver {
			continue
		}
		delete(d.partials, name)
		if len(p.told) > 0 {
			d.tell(partBack, name, "", nil, now)
		}
	}
}

// tell says something of a topic in the log.
func (d *dispatch) tell(news news, name topic, c cause, err error, now time.Time) {
	d.notices.tell(d.logger, notice{news, name.destination.Name, c}, name.name, err, now)
}

// heldTopics says of each destination which topics are held: one of them with the reason, and how many others.
func (d *dispatch) heldTopics() map[*Destination]string {
	type found struct {
		name  string
		err   error
		count int
	}
	worst := map[*Destination]found{}
	note := func(name topic, err error) {
		f := worst[name.destination.Destination]
		if f.count++; f.count == 1 || name.name < f.name { // the same one each time
			f.name, f.err = name.name, err
		}
		worst[name.destination.Destination] = f
	}
	for name, h := range d.topics {
		if h.active() {
			note(name, h.err)
		}
	}
	for name, p := range d.partials {
		if h := d.topics[name]; len(p.told) > 0 && !h.active() {
			note(name, p.err)
		}
	}
	notes := map[*Destination]string{}
	for to, f := range worst {
		others := ""
		if f.count > 1 {
			others = fmt.Sprintf(" (and %d others)", f.count-1)
		}
		notes[to] = fmt.Sprintf("rows of topic %q are held%s: %v", f.name, others, f.err)
	}
	return notes
}
