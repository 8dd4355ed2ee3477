package outbox

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A row whose decoding panics is invalid, and identified well enough to be refused. All others arrive unchanged.
func TestPanicWhileARowIsRead(t *testing.T) {
	t.Parallel()
	text := Column{Plain: "c", OID: pgtype.TextOID}
	table := Table{mapping: &mapping{
		relation: &relation{seed: maphash.MakeSeed()},
		ID:       Column{Plain: "id", OID: pgtype.UUIDOID}, Order: text, Payload: text,
	}}
	var a arena
	for i := range 300 {
		values := make([][]byte, atExtra)
		values[atAfter], values[atVersion] = []byte{0}, []byte{0, 0, 0, 9}
		values[atID] = fmt.Append(nil, "an id of so many bytes")[:16]
		values[atOrder], values[atTopic], values[atPayload], values[atKey] = number(int64(i)), []byte("t"), []byte("payload"),
			[]byte("key")
		values[atAttempt], values[atShard], values[atWriter], values[atPlace] = number(3), []byte{0, 0, 0, 7},
			[]byte{0, 0, 0, 9},
			[]byte{0, 0, 0, 1, 0, 1}
		values[atIdentity] = []byte("apart")
		bad := i%100 == 50
		if bad {
			values[atID] = values[atID][:3:3] // not a uuid
		}
		var row Row
		table.decode(&row, values, 1<<20, &a)
		switch {
		case row.ID() != string(values[atID]), row.Identity() != "apart", row.Position.Ordinal != int64(i), row.Attempt != 3,
			row.Shard != 7,
			row.Writer != 9, row.place[3] != 1, string(row.Message.Key) != "key":
			t.Fatalf("row %d is not known: %+v", i, row)
		case bad && (publisher.ClassOf(row.Invalid) != publisher.Permanent ||
			!strings.Contains(row.Invalid.Error(), "outbox/row.go:") ||
			row.Message.Payload != nil):
			t.Errorf("row %d: %v, payload %q", i, row.Invalid, row.Message.Payload)
		case !bad && (row.Invalid != nil || string(row.Message.Payload) != "payload" || string(row.Message.Key) != "key"):
			t.Errorf("row %d: %v, payload %q", i, row.Invalid, row.Message.Payload)
		}
	}
}
