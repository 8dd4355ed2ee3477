package route

import (
	"slices"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// mostAddresses bounds the addresses of a destination that [Addresses] returns.
const mostAddresses = 100

// Addresses returns where the rows go on each destination's broker, without duplicates and at most 100 per destination,
// and the topics of rows that no destination takes. Rows have no address if they have no topic or if a
// template needs a column that is NULL.
func Addresses(routes []*Route, rows []outbox.Row) (addresses [][]publisher.Address, lost []string) {
	addresses = make([][]publisher.Address, len(routes))
	for i := range rows {
		row := &rows[i]
		if row.Invalid != nil {
			continue
		}
		taken := false
		for to, d := range routes {
			if !d.Takes(row.Message.Topic) {
				continue
			}
			taken = taken || d.FailedFrom == "" && d.RelayedFrom == "" // else they are taken elsewhere, too
			if one := *row; d.Address(&one) == nil {
				addresses[to] = addNew(addresses[to], publisher.Address{
					Topic: one.Message.Topic, Exchange: one.Message.Exchange,
				})
			}
		}
		if !taken {
			lost = addNew(lost, row.Message.Topic)
		}
	}
	return addresses, lost
}

// addNew adds an element unless it exists already or there is no room.
func addNew[T comparable](list []T, one T) []T {
	if len(list) >= mostAddresses || slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}
