package publisher

import "context"

// A Stop is a channel that stops a call of [Publisher.Publish] from sending further messages once it is closed. The nil
// Stop is never closed.
type Stop <-chan struct{}

// Closed reports whether nothing more may be sent. It does not block.
func (s Stop) Closed() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

type stopKey struct{}

// WithStop returns a context for [Publisher.Publish] that carries a stop. After the stop has been closed, the call
// waits until ctx ends for the answers to what it has sent, and returns the other messages as [NotAttempted].
//
// Messages of one key may be sent one by one, each after the answer to the one before. A call without a stop therefore
// sends the last of them a moment before ctx ends, and their outcome stays unknown.
func WithStop(ctx context.Context, stop Stop) context.Context {
	return context.WithValue(ctx, stopKey{}, stop)
}

// StopOf returns the stop that ctx carries, or nil.
func StopOf(ctx context.Context) Stop {
	stop, _ := ctx.Value(stopKey{}).(Stop)
	return stop
}

// A Debtor is a [Publisher] that gives up the wait for an answer before it comes, and takes the answer later. After a
// stop nobody asks any more: the messages may have arrived, and will be published again.
type Debtor interface {
	// Unanswered returns the number of messages that were sent and whose answers may still come.
	Unanswered() int
}

// UnansweredOf returns the number of messages that p has sent and whose answers may still come; 0 if p is no [Debtor].
func UnansweredOf(p Publisher) int {
	if d, ok := p.(Debtor); ok {
		return d.Unanswered()
	}
	return 0
}
