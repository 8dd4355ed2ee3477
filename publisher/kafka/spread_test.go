package kafka

import (
	"fmt"
	"testing"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A spread is a cluster of three brokers, the last of which are in trouble, with a topic whose partitions they lead in
// turn.
type spread struct {
	*fakeCluster
	leaders   []int32
	troubled  int   // number of brokers in trouble
	first     int32 // first of the brokers in trouble
	published int
}

// eachSpread runs a test with none, some and most brokers in trouble, and with few and many partitions.
func eachSpread(t *testing.T, test func(t *testing.T, s *spread)) {
	for _, c := range []struct {
		name                 string
		troubled, partitions int // number of brokers in trouble, of three; number of partitions of each broker
	}{{"control", 0, 4}, {"one of three", 1, 1}, {"one of three, many partitions", 1, 8}, {"two of three", 2, 4}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &spread{fakeCluster: newFakeCluster(t, 3), troubled: c.troubled, first: int32(3 - c.troubled)}
			for range c.partitions {
				s.leaders = append(s.leaders, 0, 1, 2)
			}
			s.topic("t", s.leaders...)
			test(t, s)
		})
	}
}

// messages returns new messages, one for each partition.
func (s *spread) messages() (all []publisher.Message) {
	for partition := range s.leaders {
		s.published++
		all = append(all, rows("t", partition, len(s.leaders), fmt.Sprint(s.published))...)
	}
	return all
}

// check checks the answers to messages: those for healthy brokers are accepted, those for the others have the given
// class.
func (s *spread) check(t *testing.T, what string, answers []error, want publisher.Class) {
	t.Helper()
	for i, err := range answers {
		switch {
		case s.leaders[i] < s.first && err != nil:
			t.Fatalf("%s: partition %d of a healthy broker: %v", what, i, err)
		case s.leaders[i] < s.first:
		case publisher.ClassOf(err) != want || want == down && publisher.ScopeOf(err) != publisher.ScopeMessage:
			t.Fatalf("%s: partition %d of a broker in trouble: %v", what, i, err)
		}
	}
}
