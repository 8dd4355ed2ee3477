package nats

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// If a stream does not acknowledge a message for a moment, the call gives the message up, so that other messages do not
// wait for it. The message is still on its way. Its acknowledgement is therefore kept: the next call that publishes the
// message waits for it instead of sending a copy, until Config.Timeout is over.

const (
	// defaultTimeout is Config.Timeout if it is not set.
	defaultTimeout = 10 * time.Second
	// keptAfter is how long after its deadline a message is remembered, in case its acknowledgement comes late.
	keptAfter = time.Minute
)

// A kept message was sent and given up before its stream answered. The keeper's mutex guards the fields below content.
type kept struct {
	id      keptID
	stream  string // or the subject, if its stream is not known
	until   time.Time
	content uint64 // hash of the payload
	run     string // the atomic batch that it is part of, if any

	answer *nats.Msg // nil until the answer has come
	lost   error     // why no answer will come
	waiter *lane     // lane of the call that waits for the answer; nil if none does
	reply  string    // subject under which that call expects the answer
}

// A keptID identifies a message. A message to another subject is another one.
type keptID struct{ subject, id string }

// A keeper holds the kept messages of all connections.
type keeper struct {
	seed maphash.Seed
	some atomic.Bool // there are kept messages

	mu   sync.Mutex
	byID map[keptID]*kept
	done time.Time // time when messages whose time is over were last removed
}

func newKeeper() *keeper { return &keeper{seed: maphash.MakeSeed(), byID: map[keptID]*kept{}} }

// content returns a hash of the payload. It shows whether a message was corrected in the table since it was sent.
func (k *keeper) content(m *publisher.Message) uint64 { return maphash.Bytes(k.seed, m.Payload) }

// keep keeps a message that a call gives up.
func (k *keeper) keep(m *publisher.Message, stream string, until time.Time) *kept {
	one := &kept{
		id: keptID{strings.Clone(m.Topic), strings.Clone(m.DedupID)}, stream: stream, until: until, content: k.content(m),
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.done) > keptAfter/6 {
		k.done = now
		maps.DeleteFunc(k.byID, func(_ keptID, one *kept) bool { return now.After(one.until.Add(keptAfter)) })
	}
	k.byID[one.id] = one
	k.some.Store(true)
	return one
}

// adopt lets a lane wait for a kept message under a reply subject. It returns nil if the message is not kept.
func (k *keeper) adopt(m *publisher.Message, waiter *lane, reply func() string) *kept {
	if !k.some.Load() {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.byID[keptID{m.Topic, m.DedupID}]
	if one == nil {
		return nil
	}
	if one.content != k.content(m) {
		delete(k.byID, one.id)
		return nil
	}
	one.waiter, one.reply = waiter, reply()
	return one
}

// leave ends a call's wait for a kept message, which stays kept.
func (k *keeper) leave(one *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one.waiter = nil
}

// look returns the answer to a kept message, if it has come, and otherwise why the wait is over, if it is.
func (k *keeper) look(one *kept, now time.Time) (answer *nats.Msg, over error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case one.answer != nil:
		return one.answer, nil
	case one.lost != nil:
		return nil, one.lost
	case now.After(one.until):
		return nil, errNotInTime
	}
	return nil, nil
}

var errNotInTime = errors.New("the stream has not acknowledged it in time")

// forget removes a kept message.
func (k *keeper) forget(one *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one.waiter = nil
	if k.byID[one.id] == one {
		delete(k.byID, one.id)
		k.some.Store(len(k.byID) > 0)
	}
}

// answered notes the answer to a kept message, and passes it to the call that waits for it.
func (k *keeper) answered(one *kept, m *nats.Msg) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one.answer = m
	if one.waiter == nil {
		return
	}
	passed := *m
	passed.Subject = one.reply
	select {
	case one.waiter.acks <- &passed:
	default: // the call looks at its kept messages itself from time to time
	}
}

// lose notes that messages have lost their answers.
func (k *keeper) lose(all []*kept, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range all {
		if one.answer == nil {
			one.lost = why
		}
	}
}

// moved notes that a stream has another leader. It will not answer what the previous one was sent and has not stored.
func (k *keeper) moved(stream, from, to string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, one := range k.byID {
		if one.stream == stream && one.answer == nil {
			one.lost = fmt.Errorf("the leader of the stream was %s and is now %s", from, to)
		}
	}
}

// park remembers on the lane that the answer to message i of its call is that to a kept message.
func (l *lane) park(i int32, one *kept) {
	if l.parked == nil {
		l.parked = map[int32][]*kept{}
	}
	l.parked[i] = append(l.parked[i], one)
}

// arrived passes an answer on, if it is for kept messages.
func (l *lane) arrived(m *nats.Msg) {
	i, ok := l.index(m.Subject)
	if _, real := readAck(m); !ok || !real {
		return
	}
	for _, one := range l.parked[i] {
		l.link.keeper.answered(one, m)
	}
	delete(l.parked, i)
}

// linger takes the answers to the messages of the lane's last call that are kept, until their time is over. The lane is
// used again if all of them were answered.
func (l *lane) linger() {
	defer l.link.release()
	var last time.Time
	for _, all := range l.parked {
		last = all[0].until // the messages of a call have one deadline
	}
	over := time.NewTimer(time.Until(last.Add(keptAfter)))
	defer over.Stop()
	for more := true; more && len(l.parked) > 0; {
		select {
		case m := <-l.acks:
			l.arrived(m)
		case <-over.C:
			more = false
		case <-l.link.closed:
			for len(l.acks) > 0 {
				l.arrived(<-l.acks)
			}
			for _, all := range l.parked {
				l.link.keeper.lose(all, l.link.lost())
			}
			more = false
		}
	}
	settled := len(l.parked) == 0
	clear(l.parked)
	l.link.give(l, settled)
}
