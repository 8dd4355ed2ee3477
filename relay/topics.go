package relay

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/outbox"
)

// mostTopics bounds the topics of a destination that [Topics] returns.
const mostTopics = 100

// Topics returns the topics on each destination's broker that rows go to, without doubles and at most
// 100 of each, and the rows' topics that no destination takes. Rows without a topic have none.
func Topics(destinations []*Destination, rows []outbox.Row) (topics [][]string, lost []string) {
	topics = make([][]string, len(destinations))
	add := func(list []string, topic string) []string {
		if len(list) >= mostTopics || slices.Contains(list, topic) {
			return list
		}
		return append(list, topic)
	}
	for i := range rows {
		row := &rows[i]
		if row.Invalid != nil {
			continue
		}
		to := slices.IndexFunc(destinations, func(d *Destination) bool { return d.takes(row.Message.Topic) })
		if to < 0 {
			lost = add(lost, row.Message.Topic)
			continue
		}
		if topic, err := destinations[to].Topic.render(row); err == nil {
			topics[to] = add(topics[to], topic)
		}
	}
	for i := range topics {
		slices.Sort(topics[i])
	}
	slices.Sort(lost)
	return topics, lost
}
