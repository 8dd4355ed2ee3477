package kafka

import (
	"context"
	"fmt"
	"math"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// unknownProducer stands for a producer id that is still to be had.
	unknownProducer = -1
	// A broker that has just started answers COORDINATOR_LOAD_IN_PROGRESS (kafka-go: GroupLoadInProgress), one to four
	// times in a row at intervals of 20 ms. The limit is a quarter of a second.
	producerIDPause = 10 * time.Millisecond
	producerIDTries = 25
)

// A producer makes a batch recognisable to the broker: a batch with the same producer, epoch and sequence is appended
// to a partition once. All partitions share the producer id. Each one has its own epoch and sequence, because the
// broker keeps them by partition, so that one partition can begin a new epoch without the others. A partition keeps the
// id with which it has begun: brokers accept any start of a sequence from a producer that is new to the partition, but
// the next batch of a known one only.
type producer struct {
	id    int64
	epoch int16
}

// retire makes the next call request another id. It is called when a partition has used up the epochs of this id, when
// the id is refused for good, and when a topic that has used it is forgotten.
func (p *Publisher) retire(id int64) { p.producer.CompareAndSwap(id, unknownProducer) }

// producerID returns the producer id, and asks the cluster for one if there is none. Of several calls that ask, the
// first answer counts. All partitions share one id; what a call has read stays its id until its end, and prepare
// compares it with the present one.
//
// It asks until the broker has an id to give. A broker that has just started, or has used up its block of ids, has none
// for some tens of milliseconds. Answering unavailable at once held a destination for nothing, which tests on a busy
// machine have shown.
//
// The question names no transaction: the id serves idempotence alone. InitProducerId with an id that exists would give
// another one as well.
func (p *Publisher) producerID(ctx context.Context) (int64, error) {
	for tries := 1; ; tries++ {
		if id := p.producer.Load(); id != unknownProducer {
			return id, nil
		}
		m, err := p.cluster.ask(ctx, &initproducerid.Request{
			TransactionTimeoutMs: math.MaxInt32, ProducerID: -1, ProducerEpoch: -1,
		}, false)
		if err != nil {
			return 0, err
		}
		response := m.(*initproducerid.Response)
		switch code := kafkago.Error(response.ErrorCode); {
		case code == 0:
			p.producer.CompareAndSwap(unknownProducer, response.ProducerID)
			continue
		case code == kafkago.ClusterAuthorizationFailed:
			// Brokers before 2.8 ask for IDEMPOTENT_WRITE on the cluster (KIP-679), and so does Amazon's IAM.
			return 0, publisher.UnavailableError(publisher.ScopeDestination, "not authorized",
				"the cluster refuses idempotent producing: grant WRITE on the topics, or IDEMPOTENT_WRITE on the "+
					"cluster (with IAM, kafka-cluster:WriteDataIdempotently): %w", code)
		case code != kafkago.GroupLoadInProgress || tries == producerIDTries:
			return 0, fmt.Errorf("ask for a producer id: %w", code)
		}
		select {
		case <-time.After(producerIDPause):
		case <-ctx.Done(): // asking again shows it
		}
	}
}
