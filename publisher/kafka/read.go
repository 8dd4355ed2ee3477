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
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// readBytes is how much a broker sends at once, unless a single batch is larger.
const readBytes = 1 << 20

var _ publisher.Reader = (*Publisher)(nil)

// Read implements [publisher.Reader]. The first record is found by its time. All later ones are read, because writers
// may give records any time. It reads with kafka-go's own client, whose answers do not have to be fast. It blocks until
// everything is read, and calls do in its own goroutine.
func (p *Publisher) Read(ctx context.Context, topics []string, from, _ time.Time, do func(*publisher.Stored)) (
	map[string]publisher.Held, error,
) {
	answer, err := p.cluster.ask(ctx, &metadata.Request{TopicNames: topics}, true)
	if err != nil {
		return nil, unavailable(err)
	}
	transport := &kafkago.Transport{Dial: p.config.Dial, ClientID: p.config.ClientID, MetadataTopics: topics}
	defer transport.CloseIdleConnections()
	if p.config.TLS != nil {
		if transport.TLS, err = p.config.TLS(); err != nil {
			return nil, err
		}
	}
	if p.config.SASL != nil {
		if transport.SASL, err = p.config.SASL(); err != nil {
			return nil, err
		}
	}
	r := &reader{
		client: &kafkago.Client{Addr: kafkago.TCP(p.config.Brokers...), Transport: transport},
		from:   from, do: do,
	}
	settings, err := p.cluster.settings(ctx, topics) // a topic whose settings may not be read counts as not compacted
	if err != nil {
		return nil, err
	}
	held := map[string]publisher.Held{}
	for _, t := range answer.(*metadata.Response).Topics {
		switch code := kafkago.Error(t.ErrorCode); code {
		case 0:
			of, err := r.topic(ctx, &t)
			if err != nil {
				return nil, fmt.Errorf("read topic %s: %w", t.Name, err)
			}
			if strings.Contains(settings[t.Name][cleanup], "compact") {
				of.Lossy = "the topic is compacted: of each key only the last message is kept"
			}
			held[t.Name] = of
		case kafkago.UnknownTopicOrPartition, kafkago.InvalidTopic:
			held[t.Name] = publisher.Held{Absent: true}
		default:
			return nil, fmt.Errorf("topic %s: %w: grant this client DESCRIBE and READ on it", t.Name, code)
		}
	}
	return held, nil
}

// A reader reads the records of a time from one topic after the other. It shows what the broker holds at the moment of
// its questions; what is appended meanwhile is not read.
type reader struct {
	client *kafkago.Client
	from   time.Time
	do     func(*publisher.Stored)
}

// topic reads a topic.
func (r *reader) topic(ctx context.Context, t *metadata.ResponseTopic) (held publisher.Held, err error) {
	question := []kafkago.OffsetRequest{}
	for i := range t.Partitions {
		at := int(t.Partitions[i].PartitionIndex)
		if t.Partitions[i].LeaderID < 0 {
			return held, fmt.Errorf("partition %d has no leader: bring back the brokers that hold it", at)
		}
		question = append(question, kafkago.FirstOffsetOf(at), kafkago.LastOffsetOf(at))
		if !r.from.IsZero() {
			question = append(question, kafkago.TimeOffsetOf(at, r.from))
		}
	}
	answer, err := r.client.ListOffsets(ctx, &kafkago.ListOffsetsRequest{
		Topics: map[string][]kafkago.OffsetRequest{t.Name: question},
	})
	if err != nil {
		return held, err
	}
	for _, p := range answer.Topics[t.Name] {
		removed, err := r.partition(ctx, t.Name, &p)
		if err != nil {
			return held, fmt.Errorf("partition %d: %w", p.Partition, err)
		}
		if removed.After(held.Since) {
			held.Since = removed
		}
	}
	return held, nil
}

// partition calls do for the records and returns the time of the first remaining record if records of the time to read
// may have been removed. That time is far in the future if no record remains.
func (r *reader) partition(ctx context.Context, topic string, p *kafkago.PartitionOffsets) (
	removed time.Time, err error,
) {
	if p.Error != nil {
		return removed, p.Error
	}
	at, first := p.FirstOffset, p.FirstOffset > 0
	for offset := range p.Offsets { // the one for the time
		first = first && (offset == at || at == p.LastOffset)
		at = offset
	}
	if first {
		removed = time.Now().AddDate(1, 0, 0)
	}
	if at < 0 { // all records are older
		return removed, nil
	}
	place := fmt.Sprintf("%s/%d", topic, p.Partition)
	for at < p.LastOffset {
		answer, err := r.client.Fetch(ctx, &kafkago.FetchRequest{
			Topic: topic, Partition: p.Partition, Offset: at, MinBytes: 1, MaxBytes: readBytes,
			MaxWait: time.Second / 2, // if there is nothing to read
		})
		if err == nil {
			err = answer.Error
		}
		if err != nil {
			return removed, err
		}
		// Transactions and compaction leave offsets without records, also at the end.
		fetched := at
		for at++; ; {
			record, err := answer.Records.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return removed, fmt.Errorf("decode records: %w", err)
			}
			at = max(at, record.Offset+1)
			if record.Offset < fetched || record.Offset >= p.LastOffset {
				continue
			}
			if first {
				removed, first = record.Time, false
			}
			stored := publisher.Stored{Topic: topic, Place: place, Position: uint64(record.Offset)}
			if record.Key != nil {
				stored.Key, _ = protocol.ReadAll(record.Key) // it is in memory
			}
			for _, h := range record.Headers {
				stored.Headers = append(stored.Headers, publisher.Header{Name: h.Key, Value: string(h.Value)})
			}
			r.do(&stored)
		}
	}
	return removed, nil
}
