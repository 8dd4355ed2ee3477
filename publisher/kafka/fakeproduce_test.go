package kafka

import (
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A fakePartition keeps the ids of its records, in order, and what each producer may send next.
type fakePartition struct {
	leader    int32
	ids       []string
	times     []time.Time // times of the records
	records   []publisher.Message
	producers map[int64]*fakeProducer
}

type fakeProducer struct {
	epoch int16
	next  int32
	last  []sequences // sequences of the last five batches
}

// sequences are those of one batch.
type sequences struct {
	first int32
	count int
}

// A fakeBatch is what arrived for one partition.
type fakeBatch struct {
	broker    int32
	topic     string
	partition int32
	producer  int64
	epoch     int16
	sequence  int32
	ids       []string
	times     []time.Time
	records   []publisher.Message
}

// A fault changes the answer for one batch.
type fault struct {
	code    kafkago.Error
	append  bool          // append the batch although code says otherwise
	drop    bool          // drop the connection instead of answering; the batch is appended if append is set
	omit    bool          // leave the partition out of the answer; the batch is appended if append is set
	until   chan struct{} // the answer waits for it
	lagging bool          // a replica does not follow, and the leader waits for it as long as the request says
}

// produce answers one request, or returns nil to drop the connection.
func (f *fakeCluster) produce(b *fakeBroker, r *produce.Request) protocol.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	response := &produce.Response{}
	if f.throttles == nil || slices.Contains(f.throttles, b.id) {
		response.ThrottleTimeMs = f.throttle
	}
	drop := false
	for t := range r.Topics {
		topic := produce.ResponseTopic{Topic: r.Topics[t].Topic}
		for i := range r.Topics[t].Partitions {
			batch := f.batch(b, topic.Topic, &r.Topics[t].Partitions[i])
			var bent fault
			if f.bend != nil {
				bent = f.bend(batch)
			}
			if bent.until != nil {
				f.mu.Unlock()
				<-bent.until
				f.mu.Lock()
			}
			if bent.lagging {
				bent.code, bent.append = kafkago.RequestTimedOut, true
				f.mu.Unlock()
				select {
				case <-time.After(time.Duration(r.Timeout) * time.Millisecond):
				case <-f.closed:
				}
				f.mu.Lock()
			}
			code := bent.code
			if bent == (fault{}) || bent.append || bent.until != nil {
				if appended := f.append(batch); code == 0 {
					code = appended
				}
			}
			drop = drop || bent.drop
			if bent.omit {
				continue
			}
			topic.Partitions = append(topic.Partitions, produce.ResponsePartition{
				Partition: batch.partition, ErrorCode: int16(code),
				ErrorMessage: "fake",
			})
		}
		response.Topics = append(response.Topics, topic)
	}
	if drop {
		return nil
	}
	return response
}

func (f *fakeCluster) batch(b *fakeBroker, topic string, p *produce.RequestPartition) *fakeBatch {
	batch := &fakeBatch{broker: b.id, topic: topic, partition: p.Partition}
	records := p.RecordSet.Records
	if stream, ok := records.(*protocol.RecordStream); ok {
		records = stream.Records[0]
	}
	if v2, ok := records.(*protocol.RecordBatch); ok {
		batch.producer, batch.epoch, batch.sequence = v2.ProducerID, v2.ProducerEpoch, v2.BaseSequence
	}
	for {
		record, err := records.ReadRecord()
		if err != nil {
			return batch
		}
		m := messageOf(f.t, topic, record)
		batch.ids, batch.records = append(batch.ids, m.ID), append(batch.records, m)
		batch.times = append(batch.times, record.Time)
	}
}

// append enforces the broker's rules. f.mu is held.
func (f *fakeCluster) append(b *fakeBatch) kafkago.Error {
	if f.topics[b.topic] == nil {
		return kafkago.UnknownTopicOrPartition
	}
	p := f.topics[b.topic][b.partition]
	if p.leader != b.broker {
		return kafkago.NotLeaderForPartition
	}
	producer := p.producers[b.producer]
	if producer == nil {
		producer = &fakeProducer{epoch: b.epoch, next: b.sequence}
		p.producers[b.producer] = producer
	}
	switch {
	case b.epoch < producer.epoch:
		return kafkago.InvalidProducerEpoch
	case b.epoch > producer.epoch:
		if b.sequence != 0 {
			return kafkago.OutOfOrderSequenceNumber
		}
		*producer = fakeProducer{epoch: b.epoch}
	case producer.has(b):
		return 0
	case b.sequence != producer.next:
		return kafkago.OutOfOrderSequenceNumber
	}
	producer.next = int32((int64(b.sequence) + int64(len(b.ids))) & maxSequence)
	producer.last = append(producer.last, sequences{b.sequence, len(b.ids)})
	producer.last = producer.last[max(len(producer.last)-5, 0):]
	p.ids, p.times, p.records = append(p.ids, b.ids...), append(p.times, b.times...), append(p.records, b.records...)
	return 0
}

// has reports whether the batch was appended before, as far as the broker remembers.
func (p *fakeProducer) has(b *fakeBatch) bool {
	return p != nil && p.epoch == b.epoch && slices.Contains(p.last, sequences{b.sequence, len(b.ids)})
}
