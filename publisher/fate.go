package publisher

import (
	"errors"
	"strings"
)

// A Fate names what is in trouble. Messages whose answers name the same Fate wait for the same thing: once one of them
// is accepted, the others can be expected to be accepted too. Fates are compared with ==. The same trouble has the same
// Fate in each call. The Name shares no memory with a message and may be kept. It holds no secret, no payload and no
// key.
type Fate struct {
	Kind FateKind
	Name string // empty for the destination
}

// A FateKind is the kind of thing that a [Fate] names.
type FateKind uint8

const (
	// FateDestination is the whole broker, or this client's account on it. It has no name.
	FateDestination FateKind = iota
	// FateBroker is one node of several: host:port.
	FateBroker
	// FateTopic is a topic, a subject, or on AMQP an exchange with a routing key: exchange/routing key.
	FateTopic
	// FatePartition is a partition of a topic: topic/number.
	FatePartition
	// FateStream is a JetStream stream.
	FateStream
	// FateExchange is an AMQP exchange with all its routing keys.
	FateExchange
	// FateQueue is an AMQP queue.
	FateQueue
)

var kinds = [...]string{"destination", "broker", "topic", "partition", "stream", "exchange", "queue"}

// String returns the name of the kind in logs.
func (k FateKind) String() string { return kinds[k] }

// String returns the name of the fate in logs, for example "partition orders/3".
func (f Fate) String() string {
	if f.Kind == FateDestination {
		return f.Kind.String()
	}
	return f.Kind.String() + " " + f.Name
}

// FateOf returns what an answer reports to be in trouble, for a message of the given topic. If the answer names
// nothing, its Scope decides. FateOf reports false if the answer concerns only this message and its key, and for the
// classes that report no trouble outside the message: Accepted, NotAttempted, Refused and Permanent. See [Error].
func FateOf(err error, topic string) (f Fate, ok bool) {
	switch e := of(err); {
	case e.Class < Topology:
		return Fate{}, false
	case e.Fate != Fate{}:
		return e.Fate, true
	case e.Scope == ScopeTopic:
		return Fate{Kind: FateTopic, Name: strings.Clone(topic)}, true
	default:
		return Fate{}, e.Scope == ScopeDestination
	}
}

// WithFate returns a copy of the answer that names the fate. The answer itself is not changed. An error that is not an
// [Error] is returned as it is.
func WithFate(err error, f Fate) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Fate = f
	return &named
}
