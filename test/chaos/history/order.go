package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// order checks the first deliveries of each key: inside a stream by their places, across streams by the times of
// arrival, where the broker records them. A failed row leaves a gap, and the key continues.
func (j *judge) order() {
	keys := map[string][]*Delivery{}
	for id, d := range j.first {
		if r := j.rows[id]; r != nil && r.Outcome == Committed && r.Key != "" {
			keys[r.Key] = append(keys[r.Key], d)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		j.oneStream(key, keys[key])
		j.orderInStreams(key, keys[key])
		j.orderAcross(key, keys[key])
	}
}

func (j *judge) number(d *Delivery) int { return j.rows[d.ID].Number }

// oneStream reports a key that changes its partition: it has no order for consumers that read one partition each.
func (j *judge) oneStream(key string, deliveries []*Delivery) {
	streams := map[string]string{} // by topic
	for _, d := range deliveries {
		if stream, known := streams[d.Topic]; known && stream != d.Stream {
			j.found(Ordered, j.around(key, d), "key %s of topic %s is in %s and in %s", key, d.Topic, stream, d.Stream)
			return
		}
		streams[d.Topic] = d.Stream
	}
}

func (j *judge) orderInStreams(key string, deliveries []*Delivery) {
	slices.SortFunc(deliveries, func(a, b *Delivery) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Offset, b.Offset))
	})
	var before *Delivery
	for _, d := range deliveries {
		if before != nil && before.Stream == d.Stream && j.number(d) < j.number(before) {
			j.found(Ordered, j.around(key, d), "key %s: number %d came after number %d in %s", key, j.number(d),
				j.number(before), d.Stream)
			continue // after the same one, others may be late too
		}
		before = d
	}
}

func (j *judge) orderAcross(key string, deliveries []*Delivery) {
	slices.SortFunc(deliveries, func(a, b *Delivery) int { return cmp.Compare(j.number(a), j.number(b)) })
	latest := map[string]*Delivery{} // of each stream, among the smaller numbers
	for _, d := range deliveries {
		for _, stream := range slices.Sorted(maps.Keys(latest)) {
			other := latest[stream]
			if stream != d.Stream && d.Exact && other.Exact && d.At.Before(other.At) {
				j.found(Ordered, j.around(key, d), "key %s: number %d came to %s %v before number %d to %s",
					key, j.number(d), d.Stream, other.At.Sub(d.At).Round(time.Microsecond), j.number(other),
					other.Stream)
			}
		}
		if other := latest[d.Stream]; other == nil || other.At.Before(d.At) {
			latest[d.Stream] = d
		}
	}
}
