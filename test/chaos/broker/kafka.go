package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

const partitions = 3

// kafka uses another client library than the relay: an error that both made in the same way would not be noticed.
type kafka struct {
	target Target
	client *kgo.Client

	mu     sync.Mutex
	topics []string
}

func openKafka(target Target) (*kafka, error) {
	k := &kafka{target: target}
	client, err := k.newClient()
	k.client = client
	return k, err
}

func (k *kafka) newClient(options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(k.target.Addresses...))
	if k.target.Dial != nil {
		options = append(options, kgo.Dialer(k.target.Dial))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka client: %w", err)
	}
	return client, nil
}

func (*kafka) URL(address string) string { return "kafka://" + address }
func (*kafka) Environment() []string     { return nil }

// Create makes a topic whose records carry the broker's time of arrival instead of the relay's.
func (k *kafka) Create(ctx context.Context, topic string) error {
	arrival := "LogAppendTime"
	err := again(ctx, func() error {
		request := kmsg.NewPtrCreateTopicsRequest()
		wanted := kmsg.NewCreateTopicsRequestTopic()
		wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, partitions, int16(k.target.Replicas)
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = "message.timestamp.type", &arrival
		wanted.Configs = append(wanted.Configs, config)
		request.Topics = append(request.Topics, wanted)
		response, err := request.RequestWith(ctx, k.client)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(response.Topics[0].ErrorCode); !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.topics, topic) {
		k.topics = append(k.topics, topic)
	}
	return nil
}

// Replicated returns all topics.
func (k *kafka) Replicated() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.topics)
}

func (*kafka) Accompany(context.Context) {}

func (k *kafka) Read(ctx context.Context) ([]history.Delivery, error) {
	ends, left, err := k.ends(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the ends of the topics: %w", err)
	}
	from := map[string]map[int32]kgo.Offset{}
	for topic, offsets := range ends {
		from[topic] = map[int32]kgo.Offset{}
		for partition := range offsets {
			from[topic][partition] = kgo.NewOffset().At(0)
		}
	}
	reader, err := k.newClient(kgo.ConsumePartitions(from))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var all []history.Delivery
	for int64(len(all)) < left {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, fmt.Errorf("read the topics after %d of %d records: %w", len(all), left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			d := history.Delivery{
				Stream: fmt.Sprintf("%s/%d", r.Topic, r.Partition), Offset: r.Offset, At: r.Timestamp, Exact: true,
				Topic: r.Topic, Key: string(r.Key), Body: body(r.Value),
			}
			for _, h := range r.Headers {
				switch h.Key {
				case headerID:
					d.ID = string(h.Value)
				case headerFailed:
					d.Failure = string(h.Value)
				}
			}
			all = append(all, d)
		})
	}
	return all, nil
}

// ends returns the offset after the last record of each partition, and the number of records. Offsets have no gaps
// because nothing here is transactional or compacted.
func (k *kafka) ends(ctx context.Context) (ends map[string]map[int32]int64, records int64, err error) {
	err = again(ctx, func() error {
		ends, records = map[string]map[int32]int64{}, 0
		request := kmsg.NewPtrListOffsetsRequest()
		for _, topic := range k.Replicated() {
			asked := kmsg.NewListOffsetsRequestTopic()
			asked.Topic = topic
			for partition := range int32(partitions) {
				p := kmsg.NewListOffsetsRequestTopicPartition()
				p.Partition, p.Timestamp = partition, -1
				asked.Partitions = append(asked.Partitions, p)
			}
			request.Topics = append(request.Topics, asked)
		}
		response, err := request.RequestWith(ctx, k.client)
		if err != nil {
			return err
		}
		for _, topic := range response.Topics {
			ends[topic.Topic] = map[int32]int64{}
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return err
				}
				ends[topic.Topic][p.Partition] = p.Offset
				records += p.Offset
			}
		}
		return nil
	})
	return ends, records, err
}

func (k *kafka) Close(ctx context.Context) {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TopicNames = k.Replicated()
	for _, topic := range request.TopicNames {
		named := kmsg.NewDeleteTopicsRequestTopic()
		named.Topic = &topic
		request.Topics = append(request.Topics, named)
	}
	_, _ = request.RequestWith(ctx, k.client) // the broker may be gone
	k.client.Close()
}
