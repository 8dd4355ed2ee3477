package kafka

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
)

// identity is the producer id that all partitions share. Epochs and sequences are each partition's
// own: the broker keeps them by partition, so that one can begin anew without the others.
type identity struct {
	turn  chan struct{} // holds a token while nobody asks
	known atomic.Int64  // the producer id; unknownProducer before the first answer
}

const (
	unknownProducer = -2
	producerIDPause = 10 * time.Millisecond
	producerIDTries = 25
)

func newIdentity() *identity {
	i := &identity{turn: make(chan struct{}, 1)}
	i.turn <- struct{}{}
	i.known.Store(unknownProducer)
	return i
}

// retire makes the next call take another id, when a partition has used up this one's epochs.
func (i *identity) retire(id int64) { i.known.CompareAndSwap(id, unknownProducer) }

// producerID returns the producer id, or noProducer where the cluster refuses idempotence. It asks the
// cluster the first time.
func (p *Publisher) producerID(ctx context.Context) (int64, error) {
	i := p.identity
	if id := i.known.Load(); id != unknownProducer {
		return id, nil
	}
	select {
	case <-i.turn:
		defer func() { i.turn <- struct{}{} }()
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-p.open.done:
		return 0, context.Canceled
	}
	if id := i.known.Load(); id != unknownProducer {
		return id, nil
	}
	id, err := p.askProducerID(ctx)
	if err != nil {
		return 0, err
	}
	i.known.Store(id)
	return id, nil
}

// askProducerID asks until the broker has ids to give. One that has just started, or has used up its
// block of ids, is without them for some ten milliseconds.
func (p *Publisher) askProducerID(ctx context.Context) (int64, error) {
	tick := time.NewTicker(producerIDPause)
	defer tick.Stop()
	for tries := 1; ; tries++ {
		m, err := p.cluster.ask(ctx, &initproducerid.Request{TransactionTimeoutMs: math.MaxInt32, ProducerID: -1, ProducerEpoch: -1}, false)
		if err != nil {
			return 0, err
		}
		response := m.(*initproducerid.Response)
		switch code := kafkago.Error(response.ErrorCode); code {
		case 0:
			return response.ProducerID, nil
		case kafkago.ClusterAuthorizationFailed, kafkago.TransactionalIDAuthorizationFailed, kafkago.UnsupportedVersion, kafkago.InvalidRequest:
			// Brokers before 3.0 ask for IDEMPOTENT_WRITE on the cluster (KIP-679).
			p.log.Warn("kafka refuses idempotent producing: after a lost answer messages may be appended twice; "+
				"grant IDEMPOTENT_WRITE on the cluster or WRITE on the topics, and restart", "error", code)
			return noProducer, nil
		default:
			if code != kafkago.GroupLoadInProgress || tries == producerIDTries {
				return 0, fmt.Errorf("ask for a producer id: %w", code)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
