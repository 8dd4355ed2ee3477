package publisher

import (
	"errors"
	"fmt"
)

// A Class says what an answer means for the message and what the relay does next.
type Class uint8

const (
	// Accepted: the broker holds the message durably. The row is settled.
	Accepted Class = iota
	// NotAttempted: the message was not sent, because an earlier message of its key in the same call was not accepted,
	// or because the call ended first. No attempt is spent. The message waits for the earlier one.
	NotAttempted
	// Refused: a definite no that may change. An attempt of the row is spent, and the row is tried again later.
	Refused
	// Permanent: no retry can help (an illegal name, a message too large even when sent alone). The row fails now.
	Permanent
	// Topology: the topic, stream, exchange or queue is missing, or this client may not write to it. The topic's rows
	// are held and tried again. No attempt is spent.
	Topology
	// Unavailable: the broker definitely did not take the message, because something is down, throttled, blocked or
	// full. The error's Scope says what is held. No attempt is spent.
	Unavailable
	// Ambiguous: the message was sent and no answer came. It is published again with the same id. No attempt is spent.
	Ambiguous
)

var classes = [...]string{
	"accepted", "not_attempted", "refused", "permanent", "topology", "unavailable", "ambiguous",
}

// String returns the name of the class in metrics and logs.
func (c Class) String() string { return classes[c] }

// A Scope says how far a Topology, Unavailable or Ambiguous answer reaches.
type Scope uint8

const (
	// ScopeDestination: nothing can be published to this broker now.
	ScopeDestination Scope = iota
	// ScopeTopic: nothing can be published to the message's topic now.
	ScopeTopic
	// ScopeMessage: only this message and its key, and any messages that share its Fate, for example those of a
	// partition without a leader.
	ScopeMessage
)

// An Error is a publisher's answer for one message that was not accepted. Many messages may share one Error. An Error
// is never changed after it has been returned.
//
// Class says what the answer means, Scope how far it reaches, and Fate what is in trouble:
//
//	class        scope        fate
//	Topology,    destination  none: the destination
//	Unavailable  topic        a topic, stream, exchange or queue; none: the topic of the message
//	             message      a partition, one broker of several, a topic, stream, exchange or queue, if the topic of
//	                          the message does not determine what shares the trouble; none: only this message and its
//	                          key
//	Ambiguous    destination  none: nothing has answered the call
//	             topic,       what stayed silent while the broker answered for other messages, as above
//	             message
//	others                    none: the answer concerns the message itself
//
// [FateOf] reads the table.
type Error struct {
	Class Class
	Scope Scope // for Topology, Unavailable and Ambiguous
	// Fate names what is in trouble. If it is zero, the Scope decides.
	Fate Fate
	// Repeats, for Topology and Unavailable: the broker was sent the message and may have taken it in part, for example
	// for one of several queues. Each further try may leave another copy. Such tries therefore become rare, and each
	// counts as published again.
	Repeats bool
	// Republished: the broker may hold one more copy of the message than the class tells, because the message was
	// sent again after a try whose outcome is unknown, or will be. The relay counts the row as published again. A row
	// whose answer is Ambiguous is counted in any case, and once more if the answer is Republished.
	Republished bool
	// Short names the cause in two or three fixed words for logs, without values of the row.
	Short string
	// Err is the cause, in enough detail to be stored as the row's last_error.
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// A Duplicate is the answer for a message that was not stored because the broker, which compares message ids, reports
// that it holds the message already. After a publish without an answer, a Duplicate is an acceptance like any other,
// and [ClassOf] returns [Accepted] for it. Otherwise another message has the same id, and the row is lost unless this
// is reported to somebody.
type Duplicate struct {
	Stream string // the stream that holds a message with this id
	Remedy string // what to do if nobody has sent this message before
}

func (d *Duplicate) Error() string {
	return fmt.Sprintf("the stream %s holds a message with this id already and has not stored this one: %s", d.Stream,
		d.Remedy)
}

// of returns the answer in full. One that no publisher has classified is Ambiguous, so that no message is lost and no
// attempt is spent.
func of(err error) Error {
	if err == nil {
		return Error{}
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return *e
	}
	if _, ok := errors.AsType[*Duplicate](err); ok {
		return Error{}
	}
	return Error{Class: Ambiguous, Short: "unknown answer"}
}

// ClassOf returns the class of an answer.
func ClassOf(err error) Class { return of(err).Class }

// ScopeOf returns the scope of an answer.
func ScopeOf(err error) Scope { return of(err).Scope }

// ShortOf returns the fixed words of an answer for logs, "unknown answer" if it has none; empty for one that accepts.
func ShortOf(err error) string { return of(err).Short }

// Repeats reports whether each further try may leave another copy. See [Error].
func Repeats(err error) bool { return of(err).Repeats }

// Republished reports whether the broker may hold one more copy of the message than the answer's class tells. See
// [Error].
func Republished(err error) bool { return of(err).Republished }

// Republish returns an answer that says the same as err and is [Republished]. For nil, it is an answer of class
// Accepted.
func Republish(err error) error {
	if err == nil {
		return errAcceptedAgain
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Republished {
		return err
	}
	marked := *e
	marked.Republished = true
	return &marked
}

var errAcceptedAgain error = &Error{
	Class: Accepted, Republished: true, Short: "accepted again",
	Err: errors.New("accepted, after a try whose outcome is unknown"),
}

// ErrNotAttempted is the answer for a message that was not sent, because it waits for an earlier message of its key.
var ErrNotAttempted error = &Error{
	Class: NotAttempted, Short: "not attempted",
	Err: errors.New("not attempted: an earlier message of the same key was not accepted"),
}

// ErrClosed is the answer for every message that is published after Close.
var ErrClosed error = &Error{
	Class: Unavailable, Scope: ScopeDestination, Short: "publisher closed",
	Err: errors.New("the publisher is closed"),
}

// RefusedError returns an answer of class Refused. The cause may be wrapped with %w.
func RefusedError(short, format string, args ...any) error {
	return &Error{Class: Refused, Short: short, Err: fmt.Errorf(format, args...)}
}

// PermanentError returns an answer of class Permanent.
func PermanentError(short, format string, args ...any) error {
	return &Error{Class: Permanent, Short: short, Err: fmt.Errorf(format, args...)}
}

// TopologyError returns an answer of class Topology for the message's topic.
func TopologyError(short, format string, args ...any) error {
	return &Error{Class: Topology, Scope: ScopeTopic, Short: short, Err: fmt.Errorf(format, args...)}
}

// UnavailableError returns an answer of class Unavailable for the given scope.
func UnavailableError(scope Scope, short, format string, args ...any) error {
	return &Error{Class: Unavailable, Scope: scope, Short: short, Err: fmt.Errorf(format, args...)}
}

// AmbiguousError returns an answer of class Ambiguous.
func AmbiguousError(short, format string, args ...any) error {
	return &Error{Class: Ambiguous, Short: short, Err: fmt.Errorf(format, args...)}
}
