package feed

import (
	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// order is what a feed needs to know of a table. Its positions have ordinals.
type order struct{ ranked, delays, indexed, unique bool }

func (o *order) Ordinal() bool      { return true }
func (o *order) Unique() bool       { return o.unique }
func (o *order) Ranked() bool       { return o.ranked }
func (o *order) Delays() bool       { return o.delays }
func (o *order) OrderIndexed() bool { return o.indexed }

// rowsAt returns rows of a key with these ordinals.
func rowsAt(ordinals ...int64) []outbox.Row {
	var rows []outbox.Row
	for _, n := range ordinals {
		id := string(rune('a' + n))
		rows = append(rows, outbox.Row{
			Message:  publisher.Message{ID: id, Topic: "t", Key: []byte("k")},
			Position: outbox.At(n, id), Attempt: 1,
		})
	}
	return rows
}
