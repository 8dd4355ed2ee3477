package kafka

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A broker that has just started has no producer ids for a moment.
func TestProducerIDsRunShort(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	p := f.open()
	asked := 0
	f.set(func() {
		f.identities = func() kafkago.Error {
			if asked++; asked < 4 {
				return kafkago.GroupLoadInProgress
			}
			return 0
		}
	})
	expect(t, "after some tries", publish(t, p, rows("t", 0, 1, "a")), ok)

	p = f.open()
	f.set(func() { f.identities = func() kafkago.Error { return kafkago.GroupLoadInProgress } })
	answer := answersOf(t, p, rows("t", 0, 1, "b"))[0]
	if publisher.ClassOf(answer) != down || publisher.ScopeOf(answer) != publisher.ScopeDestination {
		t.Errorf("without producer ids: %v", answer)
	}
	expect(t, "log", f.log("t", 0), "a")
}

func TestWithoutIdempotence(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, 0)
	f.identities = func() kafkago.Error { return kafkago.ClusterAuthorizationFailed }
	var log bytes.Buffer
	p := f.open(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	producers := map[int64]bool{}
	f.set(func() { f.bend = func(b *fakeBatch) fault { producers[b.producer] = true; return fault{} } })
	for i := range 3 {
		expect(t, "call", publish(t, p, rows("t", 0, 2, fmt.Sprint(i))), ok)
	}
	f.set(func() { f.bend = once(fault{drop: true, append: true}) })
	messages := rows("t", 0, 2, "a")
	expect(t, "a lost answer", publish(t, p, messages), unsure)
	expect(t, "given again", publish(t, p, messages), ok)
	expect(t, "log", f.log("t", 0), "0", "1", "2", "a", "a")
	if len(producers) != 1 || !producers[noProducer] {
		t.Errorf("producer ids on the wire: %v", producers)
	}
	if n := strings.Count(log.String(), "idempotent"); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, log.String())
	}
}

// Rights that are granted while the relay runs take effect without a restart, from one batch to the next.
func TestIdempotenceIsAllowedLater(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.identities = func() kafkago.Error { return kafkago.ClusterAuthorizationFailed }
	var log bytes.Buffer
	p := f.open(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	expect(t, "refused", publish(t, p, rows("t", 0, 1, "a", "b")), ok, ok)
	p.identity.again.Store(0) // the time has come
	expect(t, "refused again", publish(t, p, rows("t", 0, 1, "c")), ok)
	f.set(func() { f.identities = nil })
	p.identity.again.Store(0)
	expect(t, "granted", publish(t, p, rows("t", 0, 1, "d")), ok)
	f.set(func() { f.bend = once(fault{drop: true, append: true}) })
	expect(t, "a lost answer", publish(t, p, rows("t", 0, 1, "e")), ok)
	expect(t, "log", f.log("t", 0), "a", "b", "c", "d", "e")
	if strings.Count(log.String(), "refuses idempotent") != 1 || strings.Count(log.String(), "allows idempotent") != 1 {
		t.Errorf("the log says:\n%s", log.String())
	}
}

// A server that does not know the request at all is treated like one that refuses it.
func TestIdempotenceIsUnknown(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0)
	f.unknown = protocol.InitProducerId
	p := f.open()
	expect(t, "answers", publish(t, p, rows("t", 0, 1, "a", "b")), ok, ok)
	if p.identity.known.Load() != noProducer {
		t.Error("an id is in use")
	}
}
