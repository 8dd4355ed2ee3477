package kafka

import (
	"fmt"
	"testing"
	"time"
)

// A broker that does not answer questions delays the calls that ask only briefly, and soon not at all.
func TestQuestionsGoToAnotherBroker(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 3)
	const topics = 60
	f.topic("first", 0, 1, 2)
	for i := range topics {
		f.topic(fmt.Sprint("t", i), 0)
	}
	p := f.open()
	for partition := range 3 {
		expect(t, "before", publish(t, p, rows("first", partition, 3, "a")), ok)
	}
	f.set(func() { f.brokers[1].deaf = true })
	begun := time.Now()
	for i := range topics {
		topic := fmt.Sprint("t", i)
		expect(t, topic, publish(t, p, rows(topic, 0, 1, "a")), ok)
	}
	unheard := 0
	f.set(func() { unheard = f.unheard })
	if took := time.Since(begun); took > 10*time.Second || unheard == 0 {
		t.Errorf("%d questions to brokers of which one is silent took %v; it got %d", topics, took, unheard)
	}
	if err := p.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

// While all connections of a healthy broker are in use, it is still asked before those that are away, which would take
// their whole turns: a probe has no time for three of them.
func TestBrokersInTroubleAreAskedLast(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 4)
	f.topic("t", 0, 1, 2, 3)
	p := f.open()
	for id := int32(1); id < 4; id++ {
		expect(t, "before", publish(t, p, rows("t", int(id), 4, "a")), ok)
		f.setDown(id, true)
		for publish(t, p, rows("t", int(id), 4, "b"))[0] != down { // what was on its way ends ambiguous
		}
	}
	healthy := p.cluster.brokers[f.brokers[0].listener.Addr().String()]
	p.cluster.mu.Lock()
	healthy.discard(func(*conn) bool { return true })
	p.cluster.mu.Unlock()
	for range 20 {
		if first := p.cluster.candidates()[0]; first != healthy {
			t.Fatalf("%s is asked first, which is away", first.address)
		}
	}
}
