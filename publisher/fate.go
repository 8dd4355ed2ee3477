package publisher

import (
	"errors"
	"strings"
)

// A Fate names what is in trouble. Messages whose answers name the same Fate wait for the same thing: once one of them
// is accepted, the others can be expected to be accepted too. Fates are compared with ==. The same trouble has the same
// Fate in each call, and the Name is a text of its own, which may be kept. It holds no secret, no payload and no key.
type Fate struct {
	Kind FateKind
	Name string // empty for the destination
}

// A FateKind says what a [Fate] is the name of.
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

// String returns the kind as logs name it.
func (k FateKind) String() string {
	switch k {
	case FateDestination:
		return "destination"
	case FateBroker:
		return "broker"
	case FateTopic:
		return "topic"
	case FatePartition:
		return "partition"
	case FateStream:
		return "stream"
	case FateExchange:
		return "exchange"
	default:
		return "queue"
	}
}

// String returns the fate as logs name it, for example "partition orders/3".
func (f Fate) String() string {
	if f.Kind == FateDestination {
		return f.Kind.String()
	}
	return f.Kind.String() + " " + f.Name
}

// FateOf returns what an answer says is in trouble, for a message of that topic. Where the answer names nothing the fate
// follows from its Scope. It reports false when the answer concerns this message and its key only, and for classes that
// tell of no trouble outside the message: Accepted, NotAttempted, Refused and Permanent. See [Error].
func FateOf(err error, topic string) (f Fate, ok bool) {
	switch ClassOf(err) {
	case Topology, Unavailable, Ambiguous:
	default:
		return Fate{}, false
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		return Fate{}, true
	case e.Fate != Fate{}:
		return e.Fate, true
	case e.Scope == ScopeTopic:
		return Fate{Kind: FateTopic, Name: strings.Clone(topic)}, true
	default:
		return Fate{}, e.Scope == ScopeDestination
	}
}

// WithFate returns the answer with the fate named; the answer given is not changed. An error that is no [Error] is
// returned as it is.
func WithFate(err error, f Fate) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	named := *e
	named.Fate = f
	return &named
}
