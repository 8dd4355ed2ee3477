package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// readBytes is how much a broker sends at once, unless a single batch is larger.
	readBytes = 1 << 20
	// strayRecords is how many consecutive records must be too late before the rest is assumed to be too late as well.
	// One record is not enough, because writers may give records any time.
	strayRecords = 1000
	// firstOffset and endOffset stand for times in questions for offsets.
	firstOffset = -2
	endOffset   = -1
)

var _ publisher.Reader = (*Publisher)(nil)

// Read implements [publisher.Reader]. Records are found by their times.
func (p *Publisher) Read(ctx context.Context, topics []string, from, until time.Time, do func(*publisher.Stored)) (
	map[string]publisher.Held, error,
) {
	answer, err := p.cluster.ask(ctx, &metadata.Request{TopicNames: topics}, true)
	if err != nil {
		return nil, unavailable(err)
	}
	response := answer.(*metadata.Response)
	p.cluster.learn(response)
	held := map[string]publisher.Held{}
	var present []string
	for i := range response.Topics {
		t := &response.Topics[i]
		switch code := kafkago.Error(t.ErrorCode); code {
		case 0:
			present = append(present, t.Name)
		case kafkago.UnknownTopicOrPartition, kafkago.InvalidTopic:
			held[t.Name] = publisher.Held{Absent: true}
		default:
			return nil, fmt.Errorf("topic %s: %w: grant this client DESCRIBE and READ on it", t.Name, code)
		}
	}
	policies, err := p.cluster.settings(ctx, present, "cleanup.policy")
	if err != nil {
		return nil, unavailable(err)
	}
	for _, name := range present {
		h := publisher.Held{}
		// A topic whose settings this client may not read counts as not compacted.
		if strings.Contains(policies[name], "compact") {
			h.Lossy = "the topic is compacted: of each key only the last message is kept"
		}
		known, _ := p.cluster.cached(name, time.Now())
		if known == nil {
			return nil, fmt.Errorf("topic %s is not served: look at the brokers' logs", name)
		}
		for i, leader := range known.leaders {
			if leader == nil {
				return nil, fmt.Errorf("partition %d of topic %s has no leader: bring back the brokers that hold it",
					i, name)
			}
			r := &partitionReader{broker: leader, topic: name, partition: int32(i)}
			removed, err := r.read(ctx, from, until, do)
			if err != nil {
				return nil, fmt.Errorf("read partition %d of topic %s: %w", i, name, err)
			}
			if removed.After(h.Since) {
				h.Since = removed
			}
		}
		held[name] = h
	}
	return held, nil
}

// A partitionReader reads one partition from its leader.
type partitionReader struct {
	broker    *broker
	topic     string
	partition int32
}

// read calls do for the records and returns the time of the first remaining record if any have been removed. That time
// is far in the future if no record remains.
func (r *partitionReader) read(ctx context.Context, from, until time.Time,
	do func(*publisher.Stored),
) (removed time.Time, err error) {
	first, err := r.offset(ctx, firstOffset)
	if err != nil {
		return removed, err
	}
	end, err := r.offset(ctx, endOffset)
	if err != nil {
		return removed, err
	}
	if first > 0 {
		removed = time.Now().AddDate(1, 0, 0)
		err := r.records(ctx, first, end, func(record *protocol.Record) bool { removed = record.Time; return false })
		if err != nil {
			return removed, err
		}
	}
	at := first
	if !from.IsZero() {
		if at, err = r.offset(ctx, from.UnixMilli()); err != nil {
			return removed, err
		}
		if at < 0 { // all records are older
			return removed, nil
		}
	}
	place, later := fmt.Sprintf("%s/%d", r.topic, r.partition), 0
	err = r.records(ctx, at, end, func(record *protocol.Record) bool {
		if later++; until.IsZero() || !record.Time.After(until) {
			later = 0
		}
		stored := publisher.Stored{Topic: r.topic, Place: place, Position: uint64(record.Offset)}
		if record.Key != nil {
			stored.Key, _ = protocol.ReadAll(record.Key) // it is in memory
		}
		for _, h := range record.Headers {
			stored.Headers = append(stored.Headers, publisher.Header{Name: h.Key, Value: string(h.Value)})
		}
		do(&stored)
		return later < strayRecords
	})
	return removed, err
}

// offset returns the first offset whose record is not older than a time, given in milliseconds since 1970. It returns
// -1 if there is none.
func (r *partitionReader) offset(ctx context.Context, at int64) (int64, error) {
	m, err := r.ask(ctx, &listoffsets.Request{ReplicaID: -1, Topics: []listoffsets.RequestTopic{{
		Topic:      r.topic,
		Partitions: []listoffsets.RequestPartition{{Partition: r.partition, CurrentLeaderEpoch: -1, Timestamp: at}},
	}}})
	if err != nil {
		return 0, err
	}
	topics := m.(*listoffsets.Response).Topics
	if len(topics) != 1 || len(topics[0].Partitions) != 1 {
		return 0, errors.New("ask for an offset: the broker's answer is empty")
	}
	answer := topics[0].Partitions[0]
	if answer.ErrorCode != 0 {
		return 0, fmt.Errorf("ask for an offset: %w", kafkago.Error(answer.ErrorCode))
	}
	return answer.Offset, nil
}

// records calls a function for the records in a range of offsets, until the function returns false.
func (r *partitionReader) records(ctx context.Context, at, end int64, do func(*protocol.Record) bool) error {
	for more := true; more && at < end; {
		m, err := r.ask(ctx, &fetch.Request{
			ReplicaID: -1, MaxWaitTime: 500, MinBytes: 1, MaxBytes: readBytes,
			SessionID: -1, SessionEpoch: -1, Topics: []fetch.RequestTopic{{
				Topic: r.topic,
				Partitions: []fetch.RequestPartition{{
					Partition: r.partition, CurrentLeaderEpoch: -1, FetchOffset: at, LogStartOffset: -1,
					PartitionMaxBytes: readBytes,
				}},
			}},
		})
		if err != nil {
			return err
		}
		response := m.(*fetch.Response)
		if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
			return fmt.Errorf("fetch records: %w", kafkago.Error(response.ErrorCode))
		}
		answer := &response.Topics[0].Partitions[0]
		if code := kafkago.Error(answer.ErrorCode); code != 0 {
			return fmt.Errorf("fetch records: %w", code)
		}
		next := at
		for records := answer.RecordSet.Records; records != nil; {
			record, err := records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("decode records: %w", err)
			}
			if more && record.Offset >= at && record.Offset < end {
				more = do(record)
			}
			next = max(next, record.Offset+1)
			for _, b := range []protocol.Bytes{record.Key, record.Value} {
				if b != nil {
					_ = b.Close() // memory only
				}
			}
		}
		// Without a record, the entry at this offset is the end of a transaction or a remnant of compaction.
		at = max(next, at+1)
	}
	return nil
}

func (r *partitionReader) ask(ctx context.Context, question protocol.Message) (protocol.Message, error) {
	return r.broker.cluster.askOf(ctx, []*broker{r.broker}, question, true)
}
