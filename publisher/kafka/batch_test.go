package kafka

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// kafka-go's decoder, which checks the checksum, must read back what was encoded.
func TestAppendBatch(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_767_000_000_123)
	old := now.Add(-30 * 24 * time.Hour)
	messages := []publisher.Message{
		{ID: "1", Key: []byte("k"), Payload: []byte("v"), Type: "application/json", Inserted: now},
		{ID: "skipped"},
		{ID: "2", Type: "text/plain"},
		{ID: "3", Key: []byte{}, Payload: []byte{}, Inserted: old},
		{
			ID: "4", Payload: bytes.Repeat([]byte("x"), 70_000), Type: "text/plain", Inserted: time.Unix(-5, 0),
			Headers: []publisher.Header{
				{Name: "Content-Type", Value: "text/csv"},
				{Name: "", Value: ""},
				{Name: strings.Repeat("n", 200), Value: strings.Repeat("ü", 9000)},
			},
		},
	}
	from := producer{id: 1<<40 + 7, epoch: 12}
	encoded, n := appendBatch([]byte("reused"), messages, []int32{0, 2, 3, 4}, 1<<20, from, maxSequence-1, clockAt(now))
	seal(encoded)
	if n != 4 {
		t.Fatalf("%d messages were taken, want 4", n)
	}
	batch := decode(t, encoded)
	if batch.ProducerID != from.id || batch.ProducerEpoch != from.epoch || batch.BaseSequence != maxSequence-1 {
		t.Errorf("the batch says producer %d, epoch %d, sequence %d", batch.ProducerID, batch.ProducerEpoch,
			batch.BaseSequence)
	}
	type header = publisher.Header
	want := []struct {
		index   int
		at      time.Time
		headers []header
	}{
		{0, now, []header{{Name: "message-id", Value: "1"}, {Name: "content-type", Value: "application/json"}}},
		{2, now, []header{{Name: "message-id", Value: "2"}, {Name: "content-type", Value: "text/plain"}}},
		{3, old, []header{{Name: "message-id", Value: "3"}}},
		{4, time.UnixMilli(0), append([]header{{Name: "message-id", Value: "4"}}, messages[4].Headers...)},
	}
	for i, w := range want {
		record, err := batch.Records.ReadRecord()
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		got := messageOf(t, "", record)
		sent := messages[w.index]
		if !bytes.Equal(got.Key, sent.Key) || (got.Key == nil) != (sent.Key == nil) {
			t.Errorf("record %d: key %q, want %q", i, got.Key, sent.Key)
		}
		if !bytes.Equal(got.Payload, sent.Payload) || (got.Payload == nil) != (sent.Payload == nil) {
			t.Errorf("record %d: payload %.20q, want %.20q", i, got.Payload, sent.Payload)
		}
		if !got.Inserted.Equal(w.at) {
			t.Errorf("record %d: time %v, want %v", i, got.Inserted, w.at)
		}
		if !slices.Equal(got.Headers, w.headers) {
			t.Errorf("record %d: headers %.100v, want %.100v", i, got.Headers, w.headers)
		}
	}
	if _, err := batch.Records.ReadRecord(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last record: %v", err)
	}
}

func TestAppendBatchStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	messages := make([]publisher.Message, 100)
	queue := make([]int32, len(messages))
	for i := range messages {
		messages[i] = publisher.Message{ID: "id", Payload: make([]byte, 1000+i)}
		queue[i] = int32(i)
	}
	for _, limit := range []int{1, 1000, 5000, 50_000, 1 << 20} {
		b, n := appendBatch(nil, messages, queue, limit, producer{}, 0, clockAt(time.Now()))
		seal(b)
		if n > 1 && len(b) > limit {
			t.Errorf("%d messages take %d bytes, more than %d", n, len(b), limit)
		}
		if n < len(messages) {
			if more, _ := appendBatch(nil, messages[:n+1], queue[:n+1], 1<<20, producer{}, 0,
				clockAt(time.Now())); len(more) <= limit {
				t.Errorf("limit %d: only %d messages were taken, one more would fit", limit, n)
			}
		}
		batch := decode(t, b)
		for range n {
			if _, err := batch.Records.ReadRecord(); err != nil {
				t.Fatalf("limit %d: %v", limit, err)
			}
		}
	}
}

func decode(t *testing.T, encoded []byte) *protocol.RecordBatch {
	t.Helper()
	var set protocol.RecordSet
	if n, err := set.ReadFrom(bytes.NewReader(encoded)); err != nil || int(n) != len(encoded) {
		t.Fatalf("decoded %d of %d bytes: %v", n, len(encoded), err)
	}
	stream, ok := set.Records.(*protocol.RecordStream)
	if !ok || len(stream.Records) != 1 {
		t.Fatalf("decoded %T", set.Records)
	}
	batch, ok := stream.Records[0].(*protocol.RecordBatch)
	if !ok {
		t.Fatalf("decoded %T", stream.Records[0])
	}
	return batch
}

// clockAt returns the clock of a partition that has refused nothing.
func clockAt(now time.Time) clock { return (&partition{}).clock(now, false) }
