package nats

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// shortWindow is the shortest duplicate window that servers choose themselves.
const shortWindow = 2 * time.Minute

// Questions for JetStream, after the prefix of the subjects at which it answers.
const (
	askAccount = "INFO"
	askNames   = "STREAM.NAMES"
	askStream  = "STREAM.INFO."
)

// ask asks JetStream a question and decodes the answer. It returns whether there is one, and adds a finding if not.
func (e *examination) ask(ctx context.Context, check, subject, api string, question []byte, answer any) bool {
	m, denied, err := e.link.request(ctx, e.api+api, question)
	if denied {
		e.Warn(inspect.Permission, subject, "the user may not ask about it, so it was not looked at",
			"grant publish on "+e.api+askNames+" and "+e.api+askStream+">")
		return false
	}
	var refused struct{ Error apiError }
	if err == nil {
		err = json.Unmarshal(m.Data, &refused)
	}
	if err == nil && refused.Error != (apiError{}) {
		err = fmt.Errorf("JetStream says of it: %s (error %d)", refused.Error.Description, refused.Error.ErrCode)
	}
	if err == nil {
		err = json.Unmarshal(m.Data, answer)
	}
	e.Add(check, subject, finding.FailIf(err != nil, fmt.Sprint(err), "look at the server's log, and for a service "+
		"that is subscribed to "+e.api+">"))
	return err == nil
}

// topics finds the streams of subjects, and examines each stream once.
func (e *examination) topics(ctx context.Context, addresses []publisher.Address) {
	streams := map[string]string{} // by subject; "" if no stream lists it
	mapped := e.streams            // an account that maps or imports subjects has streams that list none of them
	for _, to := range addresses {
		var answer struct{ Streams []string }
		question, _ := json.Marshal(map[string]string{"subject": to.Topic}) // strings can always be encoded
		if e.ask(ctx, inspect.Topic, to.Topic, askNames, question, &answer) {
			streams[to.Topic] = strings.Join(answer.Streams, ", ") // one at most
			mapped = mapped && len(answer.Streams) == 0
		}
	}
	expected, setting, seen := e.link.p.config.Stream, e.link.p.names.Of("Stream"), map[string]bool{"": true}
	for _, subject := range slices.Sorted(maps.Keys(streams)) {
		stream := streams[subject]
		e.Add(inspect.Topic, subject,
			finding.WarnIf(stream == "" && mapped, "no stream lists the subject, so its rows are held, unless the "+
				"account maps or imports it under another name, which JetStream does not report", "add the subject to "+
				"a stream; if the account maps it, see /readyz?verbose, and name the stream in "+setting+
				", so that verify finds the messages"),
			finding.FailIf(stream == "", "no stream takes the subject: its rows are held",
				"create a stream, or add the subject to one"),
			finding.FailIf(expected != "" && expected != stream, fmt.Sprintf("the stream %s takes it, not %s: its "+
				"rows are held", stream, expected), "correct "+setting+", or the streams' subjects"),
			finding.OKIf(true, "goes to the stream "+stream))
		if stream = cmp.Or(expected, stream); !seen[stream] {
			seen[stream] = true
			e.stream(ctx, stream)
		}
	}
}

// stream examines whether a stream takes messages, and what its acknowledgement guarantees.
func (e *examination) stream(ctx context.Context, name string) {
	s := &jetstream.StreamInfo{}
	if !e.ask(ctx, checkStream, name, askStream+name, nil, s) {
		return
	}
	c := &s.Config
	// JetStream answers a publish to such streams with an error, or not at all.
	e.Add(checkStream, name,
		finding.FailIf(c.Sealed || c.NoAck, "it is sealed, or sends no acknowledgements (no_ack): its rows are held",
			"move the subject to another stream, or turn no_ack off"),
		finding.OKIf(true, "acknowledges; the messages of one key go one after the other"))
	e.Add(inspect.Replication, name,
		finding.WarnIf(c.Replicas < 2, "it has one replica: what is acknowledged is lost with its server's disk",
			"give it three replicas, in different zones"),
		finding.OKIf(true, fmt.Sprintf("has %d replicas", c.Replicas)))
	// A server syncs its files every sync_interval, so an acknowledgement protects from the crash of a process, and
	// only replicas from the loss of a machine.
	e.Add(checkStorage, name,
		finding.FailIf(c.PersistMode == jetstream.AsyncPersistMode, "it acknowledges before it writes (persist_mode "+
			"async): what is acknowledged is lost in a crash", "make a stream with persist_mode default"),
		finding.WarnIf(c.Storage == jetstream.MemoryStorage, "it is in memory: what is acknowledged is lost when most "+
			"of its servers restart at once, or its only one", "make a stream with storage file"),
		finding.OKIf(true, "is on disk; an acknowledgement comes before the server syncs it (sync_interval, 2 minutes "+
			"unless set): a loss of power loses what is not on another replica"))
	// With limits and work queues the stream keeps what nobody has read yet.
	e.Add(checkRetention, name,
		finding.WarnIf(c.Retention == jetstream.InterestPolicy && s.State.Consumers == 0, "it has no consumer, and "+
			"keeps only what one waits for (retention interest): what is acknowledged is dropped at once",
			"create its consumers before rows are relayed, or choose retention limits"))
	limited := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0
	e.Add(inspect.Limits, name,
		finding.OKIf(limited && c.Discard != jetstream.DiscardNew, "drops its oldest messages at its limits, read or "+
			"not (discard old)"),
		finding.OKIf(true, "holds rows when it is full"))
	// The window is what makes a repeated publish harmless: whoever publishes again within it is told that the stream
	// has the message.
	window := fmt.Sprintf("recognises a message by its Nats-Msg-Id for %v: after a longer outage the rows whose "+
		"answers were lost, at most %s, may be stored twice", c.Duplicates, e.link.p.names.Of("MaxInFlight"))
	e.Add(checkDuplicates, name,
		finding.WarnIf(c.Duplicates < shortWindow, window,
			"if no two rows have the same id that long (message_id), raise duplicate_window above the longest outage"),
		finding.OKIf(true, window))
}
