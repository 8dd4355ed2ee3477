package publishertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A script describes how a broker misbehaves.
type script struct {
	held, down bool
	delay      time.Duration
	limit      int             // maximum bytes of payload; 0 if there is none
	missing    map[string]bool // topics
	stopped    map[string]bool // topics
	silent     map[string]bool // topics
	leaderless map[part]bool
	poison     map[string]bool     // message ids
	crashes    map[string]bool     // message ids
	answers    map[string][]answer // by message id, for its next tries
}

// An answer is scripted for one try of a message.
type answer struct {
	err    error
	stored bool
}

func newScript() script {
	return script{
		missing: map[string]bool{}, stopped: map[string]bool{}, silent: map[string]bool{}, leaderless: map[part]bool{},
		poison: map[string]bool{}, crashes: map[string]bool{}, answers: map[string][]answer{},
	}
}

// Refuse makes the broker answer the next tries of the message as Refused. Like everything scripted for tries, it comes
// after what was scripted before.
func (b *Broker) Refuse(id string, times int) {
	b.plan(id, times, answer{err: publisher.RefusedError("refused", "the broker refuses message %s", id)})
}

// Answer makes the broker answer the next tries of the message with the given errors; nil means Accepted. A message
// answered with an error is not stored.
func (b *Broker) Answer(id string, errs ...error) {
	for _, err := range errs {
		b.plan(id, 1, answer{err: err, stored: err == nil})
	}
}

// LoseAnswer makes the broker store the message in its next tries and answer them as Ambiguous.
func (b *Broker) LoseAnswer(id string, times int) {
	b.plan(id, times, answer{
		err: publisher.AmbiguousError("answer lost", "the answer for message %s was lost", id), stored: true,
	})
}

// LoseMessage loses the message on its way in its next tries, which looks like a lost answer.
func (b *Broker) LoseMessage(id string, times int) {
	b.plan(id, times, answer{err: publisher.AmbiguousError("answer lost", "the answer for message %s was lost", id)})
}

// Poison makes every try of the message Permanent.
func (b *Broker) Poison(id string) { b.change(func() { b.poison[id] = true }) }

// Crash makes the message break its connection: every message of a call with it is Ambiguous, and none of them is
// stored.
func (b *Broker) Crash(id string) { b.change(func() { b.crashes[id] = true }) }

// Heal ends everything that was scripted for the message.
func (b *Broker) Heal(id string) {
	b.change(func() {
		delete(b.poison, id)
		delete(b.crashes, id)
		delete(b.answers, id)
	})
}

// Remove makes the topic unknown. Messages that have arrived in it remain readable.
func (b *Broker) Remove(topic string) { b.change(func() { b.missing[topic] = true }) }

// Create ends Remove.
func (b *Broker) Create(topic string) { b.change(func() { delete(b.missing, topic) }) }

// DownTopic makes only this topic Unavailable.
func (b *Broker) DownTopic(topic string) { b.change(func() { b.stopped[topic] = true }) }

// UpTopic ends DownTopic.
func (b *Broker) UpTopic(topic string) { b.change(func() { delete(b.stopped, topic) }) }

// Silence makes messages of the topic wait for an answer until Speak or the end of their call. A message whose call
// ends is Ambiguous and not stored, and its answer names the topic. The other messages of the call arrive before the
// wait.
func (b *Broker) Silence(topic string) { b.change(func() { b.silent[topic] = true }) }

// Speak ends Silence.
func (b *Broker) Speak(topic string) { b.change(func() { delete(b.silent, topic) }) }

// Down makes the whole broker Unavailable, including Ping.
func (b *Broker) Down() { b.change(func() { b.down = true }) }

// Up ends Down.
func (b *Broker) Up() { b.change(func() { b.down = false }) }

// Hold makes every call wait until Release or its end. If a call ends during the wait, it is Ambiguous, and none of its
// messages is stored.
func (b *Broker) Hold() { b.change(func() { b.held = true }) }

// Release ends Hold.
func (b *Broker) Release() { b.change(func() { b.held = false }) }

// Delay makes each call take the given time from now on.
func (b *Broker) Delay(d time.Duration) { b.change(func() { b.delay = d }) }

// Limit makes messages Permanent whose payload has more than the given number of bytes; 0 means no limit.
func (b *Broker) Limit(bytes int) { b.change(func() { b.limit = bytes }) }

// Reset ends everything that was scripted. Messages that have arrived stay.
func (b *Broker) Reset() { b.change(func() { b.script = newScript() }) }

func (b *Broker) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.wake()
}

func (b *Broker) plan(id string, times int, next answer) {
	b.change(func() {
		for range times {
			b.answers[id] = append(b.answers[id], next)
		}
	})
}

// judge decides one try of a message. b.mu is held.
func (b *Broker) judge(m *publisher.Message) (stored bool, err error) {
	if err := check(m); err != nil {
		return false, err
	}
	switch {
	case b.missing[m.Topic]:
		return false, publisher.WithFate(
			publisher.TopologyError("unknown topic", "the topic %q does not exist", m.Topic), topicFate(m.Topic))
	case b.stopped[m.Topic]:
		return false, publisher.WithFate(
			publisher.UnavailableError(publisher.ScopeTopic, "topic down", "the topic %q is down", m.Topic),
			topicFate(m.Topic))
	case b.silent[m.Topic]:
		return false, &publisher.Error{
			Class: publisher.Ambiguous, Scope: publisher.ScopeTopic, Fate: topicFate(m.Topic), Short: "no answer",
			Err: fmt.Errorf("the topic %q gave no answer before the call ended", m.Topic),
		}
	case b.limit > 0 && len(m.Payload) > b.limit:
		return false, publisher.PermanentError("too large", "the payload has %d bytes, more than %d", len(m.Payload),
			b.limit)
	case b.poison[m.ID]:
		return false, publisher.PermanentError("poison", "the broker never takes message %s", m.ID)
	}
	if err := b.leader(m); err != nil {
		return false, err
	}
	if planned := b.answers[m.ID]; len(planned) > 0 {
		b.answers[m.ID] = planned[1:]
		return planned[0].stored, planned[0].err
	}
	return true, nil
}

// check finds messages that this broker never takes, whatever its script.
func check(m *publisher.Message) error {
	if m.Topic == "" || len(m.Topic) > 200 || strings.ContainsAny(m.Topic, " \r\n\x00") {
		return publisher.PermanentError("illegal topic",
			"the topic %.40q is empty, longer than 200 bytes or has a space in it", m.Topic)
	}
	return m.CheckHeaders()
}

func topicFate(topic string) publisher.Fate {
	return publisher.Fate{Kind: publisher.FateTopic, Name: strings.Clone(topic)}
}
