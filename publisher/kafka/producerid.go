package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
)

// identity holds the producer id that all partitions share. Each partition has its own epoch and sequence, because the
// broker keeps them by partition. One partition can therefore begin a new epoch without the others. A partition keeps
// the id with which it has begun: brokers accept any start of a sequence from a producer that is new to the partition,
// but the next batch of a known one only.
type identity struct {
	turn  chan struct{} // holds a token while no call asks for an id
	known atomic.Int64  // producer id; unknownProducer before the first answer
	again atomic.Int64  // when to ask again although the cluster refused, in Unix nanoseconds
}

const (
	unknownProducer = -2
	// A broker that has just started answers GROUP_LOAD_IN_PROGRESS for up to a tenth of a second.
	producerIDPause = 10 * time.Millisecond
	producerIDTries = 25
	// refusalTTL is the time after which a cluster that refuses idempotence is asked again, since rights may be
	// granted.
	refusalTTL = time.Minute
)

func newIdentity() *identity {
	i := &identity{turn: make(chan struct{}, 1)}
	i.turn <- struct{}{}
	i.known.Store(unknownProducer)
	return i
}

// retire makes the next call request another id. It is called when a partition has used up the epochs of this id, when
// the id is refused for good, and when a topic that has used it is forgotten.
func (i *identity) retire(id int64) {
	if id != noProducer {
		i.known.CompareAndSwap(id, unknownProducer)
	}
}

// producerID returns the producer id, or noProducer if the cluster refuses idempotence. It asks the cluster the first
// time, and again from time to time after a refusal.
func (p *Publisher) producerID(ctx context.Context) (int64, error) {
	i := p.identity
	if id, fresh := i.current(); fresh {
		return id, nil
	}
	select {
	case <-i.turn:
		defer func() { i.turn <- struct{}{} }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	before, fresh := i.current()
	if fresh {
		return before, nil
	}
	id, refusal, err := p.askProducerID(ctx)
	if err != nil {
		return 0, err
	}
	switch {
	case refusal != nil && before != noProducer:
		p.config.Logger.Warn("kafka refuses idempotent producing, messages are sent with acks=all alone: after a lost "+
			"answer they may be appended twice; grant IDEMPOTENT_WRITE on the cluster or WRITE on the topics",
			"error", refusal)
	case refusal == nil && before == noProducer:
		p.config.Logger.Info("kafka allows idempotent producing now")
	}
	i.again.Store(time.Now().Add(refusalTTL).UnixNano())
	i.known.Store(id)
	return id, nil
}

// current returns the known id and whether it may be used. A refusal is known as well, for a minute.
func (i *identity) current() (id int64, fresh bool) {
	id = i.known.Load()
	return id, id != unknownProducer && (id != noProducer || time.Now().UnixNano() < i.again.Load())
}

// askProducerID asks until the broker has an id to give. A broker that has just started, or has used up its block of
// ids, has none for some tens of milliseconds. If the id is noProducer, refusal is the reason.
func (p *Publisher) askProducerID(ctx context.Context) (id int64, refusal, err error) {
	tick := time.NewTicker(producerIDPause)
	defer tick.Stop()
	for tries := 1; ; tries++ {
		m, err := p.cluster.ask(ctx, &initproducerid.Request{
			TransactionTimeoutMs: math.MaxInt32, ProducerID: -1,
			ProducerEpoch: -1,
		}, false)
		if errors.Is(err, kafkago.UnsupportedVersion) {
			return noProducer, err, nil
		}
		if err != nil {
			return 0, nil, err
		}
		response := m.(*initproducerid.Response)
		switch code := kafkago.Error(response.ErrorCode); code {
		case 0:
			return response.ProducerID, nil, nil
		case kafkago.ClusterAuthorizationFailed, kafkago.TransactionalIDAuthorizationFailed,
			kafkago.UnsupportedVersion, kafkago.InvalidRequest:
			// Brokers before 3.0 ask for IDEMPOTENT_WRITE on the cluster (KIP-679).
			return noProducer, code, nil
		default:
			if code != kafkago.GroupLoadInProgress || tries == producerIDTries {
				return 0, nil, fmt.Errorf("ask for a producer id: %w", code)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
}
