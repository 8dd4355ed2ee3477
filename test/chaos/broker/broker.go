// Package broker is the consumers' side: it makes topics, and after a run it reads everything that a broker holds, from
// the first message on. The messages that a broker holds in the end are those that it has promised to keep. A consumer
// that ran through all faults would itself have to be checked.
package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/outbox-relay/outbox-relay/test/chaos/history"
)

// Kinds are the supported kinds of brokers.
var Kinds = []string{"kafka", "nats", "rabbitmq"}

// A Broker is one of the real brokers, with the topics that one run has made in it.
type Broker interface {
	// URL returns OUTBOX_PUBLISH_URL for a relay that reaches the broker at host:port.
	URL(address string) string
	// Environment returns further settings of a relay.
	Environment() []string
	// Replicated returns the names of the topics, streams or queues that exist.
	Replicated() []string
	// Create makes a topic ready to be written to. An existing topic is left as it is.
	Create(ctx context.Context, topic string) error
	// Accompany runs beside the relays until ctx ends.
	Accompany(ctx context.Context)
	// Read returns all messages. It may be called once, when nothing writes any more.
	Read(ctx context.Context) ([]history.Delivery, error)
	// Close removes what was made, if the broker still answers, and closes the connections.
	Close(ctx context.Context)
}

// A Target is a broker of one or several nodes.
type Target struct {
	Addresses []string // host:port of each node
	Replicas  int      // of each topic, stream or queue
	// Dial connects to a node at the address that it announces. Without it, that address is used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Open returns the broker of a kind. The name is unique to the run and is part of the names of everything that is made.
func Open(kind string, target Target, name string) (Broker, error) {
	switch kind {
	case "kafka":
		return openKafka(target)
	case "nats":
		return openNATS(target, name)
	case "rabbitmq":
		return &rabbit{target: target, name: name}, nil
	default:
		return nil, fmt.Errorf("there is no broker %q", kind)
	}
}

// Names of the headers with a row's id and key, and with the time at which a dead letter's row failed.
const (
	headerID     = "message-id"
	headerKey    = "message-key"
	headerFailed = "outbox-failed-at"
)

const pause = 100 * time.Millisecond // between attempts

// again calls a function until it succeeds or ctx ends.
func again(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// body reads the payload of a row. A payload of another form becomes one that no row has.
func body(payload []byte) history.Body {
	var b history.Body
	if err := json.Unmarshal(payload, &b); err != nil {
		return history.Body{ID: fmt.Sprintf("unreadable: %.40q", payload)}
	}
	return b
}
