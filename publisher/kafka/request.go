package kafka

import (
	"bytes"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// A request carries batches to a broker, and later their outcome. The caller fills in the first part and reads the last
// one when broker.send has returned; everything between belongs to the broker.
type request struct {
	message protocol.Message
	jobs    []*job        // whose batches it carries
	size    int           // total size of the batches
	since   time.Time     // start of its call: if other brokers have answered since, the call must not wait for long
	limit   time.Duration // time limit for an answer

	sent time.Time     // time at which it was written to a connection; zero if it was not sent
	wait time.Duration // time that the answer may take before it is late
	late *time.Timer   // checks whether other brokers answer, so that this request is given up

	// The outcome. A broker that was sent the request and has not answered may have its batches.
	response *produce.Response // nil if none has come
	err      error             // the answer for its messages if there is no response
	// final is set if the call sends nothing more to the broker: it is a suspect, requests a pause, or has not answered
	// in time. Otherwise there was no connection, or it has ended.
	final bool
}

// newProduce builds the message with the jobs' batches. The jobs are sorted by topic. The message refers to the bytes
// of the batches, which nobody changes or recycles before the request has come back. Acks is -1 (all): a broker answers
// when every replica in sync has the batch. rawproduce takes the bytes as they are, so that a batch that is sent again
// is the same to the bit.
func newProduce(jobs []*job, replication time.Duration) protocol.Message {
	request := &rawproduce.Request{Acks: -1, Timeout: int32(replication.Milliseconds())}
	for i, j := range jobs {
		if i == 0 || jobs[i-1].partition.topic != j.partition.topic {
			request.Topics = append(request.Topics, rawproduce.RequestTopic{Topic: j.partition.topic})
		}
		last := &request.Topics[len(request.Topics)-1]
		last.Partitions = append(last.Partitions, rawproduce.RequestPartition{
			Partition: j.partition.index,
			RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(j.partition.batch.bytes)},
		})
	}
	return request
}

// answerFor finds the partition's answer. It returns nil if there is none.
func answerFor(response *produce.Response, p *partition) *produce.ResponsePartition {
	if response == nil {
		return nil
	}
	for t := range response.Topics {
		if response.Topics[t].Topic != p.topic {
			continue
		}
		for i := range response.Topics[t].Partitions {
			if answer := &response.Topics[t].Partitions[i]; answer.Partition == p.index {
				return answer
			}
		}
	}
	return nil
}
