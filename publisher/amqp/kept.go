package amqp

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// keptFor is how long a confirm is waited for if the call that sent the message has no time limit.
	keptFor = 10 * time.Second
	// forgottenAfter is how long it is known that a message was sent whose confirm is no longer waited for.
	forgottenAfter = 10 * time.Minute
)

// A kept message was sent, and its call did not wait for the broker's answer.
type kept struct {
	channel  *channel
	confirm  *amqp091.DeferredConfirmation
	content  uint64        // hash of the payload
	begun    time.Time     // beginning of the call that sent the message
	patience time.Duration // how long the confirm is waited for, from then on
	accepts  int64         // accepts of the connection when the message was kept
	answer   error         // answer for the message until the broker's
	released bool          // the confirm was waited for long enough, and is no longer
}

// keptID identifies a kept message, or one that the broker returned.
type keptID struct {
	to route
	id string
}

func (r route) clone() route { return route{strings.Clone(r.exchange), strings.Clone(r.topic)} }

// confirms holds what is kept. The zero value is ready for use.
type confirms struct {
	mu    sync.Mutex
	seed  maphash.Seed
	kept  map[keptID]*kept
	swept time.Time
}

// content returns a hash of the payload. It shows whether a message was corrected in the table since it was sent.
func (c *confirms) content(m *publisher.Message) uint64 {
	if c.seed == (maphash.Seed{}) {
		c.seed = maphash.MakeSeed()
	}
	return maphash.Bytes(c.seed, m.Payload)
}

// keep keeps a message.
func (c *confirms) keep(k *kept, to route, m *publisher.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[keptID]*kept{}
	}
	k.content, k.accepts = c.content(m), k.channel.conn.accepts.Load()
	k.channel.keep(+1)
	c.kept[keptID{to.clone(), strings.Clone(m.ID)}] = k
}

// find returns a kept message if it is the message that would be sent now. It is no longer kept if the broker has
// answered. lost means that there was one, and that its confirm will not come or was waited for long enough.
func (c *confirms) find(to route, m *publisher.Message) (k *kept, answered, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k = c.kept[keptID{to, m.ID}]; k == nil {
		return nil, false, false
	}
	same := k.content == c.content(m) // otherwise the row was corrected since: another message
	if !k.released {
		select {
		case <-k.confirm.Done():
			answered = same && (k.confirm.Acked() || !k.channel.amqp.IsClosed())
		default:
			if !k.over() && same {
				return k, false, false
			}
		}
		k.release()
	}
	delete(c.kept, keptID{to, m.ID})
	if !answered {
		return nil, false, same
	}
	return k, true, false
}

// over reports whether the confirm was waited for long enough. During an alarm the broker reads nothing, and time does
// not count.
func (k *kept) over() bool {
	conn := k.channel.conn
	if k.channel.amqp.IsClosed() {
		return true
	}
	begun := k.begun
	if freed := time.Unix(0, conn.freed.Load()); freed.After(begun) {
		begun = freed
	}
	return conn.blocked.Load() == nil && time.Since(begun) > k.patience
}

// release ends the wait for the confirm. If the broker has answered neither this message nor another one since, the
// node may have lost contact with the other nodes.
func (k *kept) release() {
	k.released = true
	k.channel.keep(-1)
	select {
	case <-k.confirm.Done():
	default:
		if conn := k.channel.conn; conn.accepts.Load() == k.accepts {
			conn.futile.Store(k.accepts + 1)
		}
	}
}

// sweep ends the wait for confirms that no call has asked for in time. It looks at them once a second.
func (c *confirms) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kept) == 0 || time.Since(c.swept) < time.Second {
		return
	}
	c.swept = time.Now()
	for id, k := range c.kept {
		switch {
		case k.released && time.Since(k.begun) > forgottenAfter:
			delete(c.kept, id)
		case !k.released && k.over():
			k.release()
		}
	}
}
