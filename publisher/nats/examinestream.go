package nats

import (
	"context"
	"encoding/json"
	"fmt"
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
	const log = "look at the server's log"
	m, denied, err := e.link.request(ctx, e.api+api, question)
	var refused struct {
		Error *jetstream.APIError `json:"error"`
	}
	switch {
	case err != nil:
		e.Fail(check, subject, err.Error(), log)
	case denied:
		e.Warn(inspect.Permission, subject, "the user may not ask about it, so it was not looked at",
			"grant publish on "+e.api+askNames+" and "+e.api+askStream+">")
	case json.Unmarshal(m.Data, answer) != nil || json.Unmarshal(m.Data, &refused) != nil:
		e.Fail(check, subject, "what answers for JetStream is not JetStream",
			"look for a service that is subscribed to "+e.api+">")
	case refused.Error != nil:
		e.Fail(check, subject, fmt.Sprintf("JetStream does not report it: %s (error %d)",
			refused.Error.Description, refused.Error.ErrorCode), log)
	default:
		return true
	}
	return false
}

// topics finds the streams of subjects, and examines each stream once.
func (e *examination) topics(ctx context.Context, addresses []publisher.Address) {
	type place struct{ subject, stream string } // "" if no stream lists the subject
	var places []place
	mapped := e.streams // an account that maps or imports subjects has streams that list none of them
	for _, to := range addresses {
		var answer struct{ Streams []string }
		question, _ := json.Marshal(map[string]string{"subject": to.Topic}) // strings can always be encoded
		if e.ask(ctx, inspect.Topic, to.Topic, askNames, question, &answer) {
			name := strings.Join(answer.Streams[:min(1, len(answer.Streams))], "")
			places, mapped = append(places, place{to.Topic, name}), mapped && name == ""
		}
	}
	expected, seen := e.link.p.config.Stream, map[string]bool{"": true}
	for _, p := range places {
		e.Add(inspect.Topic, p.subject,
			finding.WarnIf(p.stream == "" && mapped, "no stream lists the subject, so its rows are held, unless the "+
				"account maps or imports it under another name, which JetStream does not report",
				"add the subject to a stream; if the account maps it, see /readyz?verbose, and name the stream in "+
					e.link.p.names.Of("Stream")+", so that verify finds the messages"),
			finding.FailIf(p.stream == "", "no stream takes the subject: its rows are held",
				"create a stream, or add the subject to one"),
			finding.FailIf(expected != "" && expected != p.stream, fmt.Sprintf("the stream %s takes it, not %s: its "+
				"rows are held", p.stream, expected),
				"correct "+e.link.p.names.Of("Stream")+", or the streams' subjects"),
			finding.OKIf(true, "goes to the stream "+p.stream))
		if p.stream == "" && mapped {
			p.stream = expected
		}
		if !seen[p.stream] && (expected == "" || expected == p.stream) {
			seen[p.stream] = true
			e.stream(ctx, p.stream)
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
	e.Add(checkStream, c.Name,
		finding.FailIf(c.Sealed, "it is sealed: it never takes a message again, and its rows are held",
			"move the subject to another stream"),
		finding.FailIf(c.NoAck, "it sends no acknowledgements (no_ack): no row ever counts as relayed",
			"turn no_ack off"),
		finding.OKIf(true, "acknowledges; the messages of one key go one after the other"))
	behind, leaderless := 0, false
	if cluster := s.Cluster; cluster != nil && cluster.Name != "" { // otherwise the server is not part of one
		leaderless = cluster.Leader == ""
		for _, r := range cluster.Replicas {
			if r.Offline || !r.Current {
				behind++
			}
		}
	}
	e.Add(inspect.Replication, c.Name,
		finding.FailIf(leaderless, "it has no leader: most of its servers are away, and its rows are held", "start "+
			"the servers that hold it"),
		finding.WarnIf(c.Replicas < 2, "it has one replica: what is acknowledged is lost with its server's disk",
			"give it three replicas, in different zones"),
		finding.WarnIf(behind > 0, fmt.Sprintf("of its %d replicas %d are away or behind", c.Replicas, behind),
			"look at the servers that hold it"),
		finding.OKIf(true, fmt.Sprintf("has %d replicas", c.Replicas)))
	// A server syncs its files every sync_interval, so an acknowledgement protects from the crash of a process, and
	// only replicas from the loss of a machine.
	const file = "make a stream with storage file"
	e.Add(checkStorage, c.Name,
		finding.FailIf(c.PersistMode == jetstream.AsyncPersistMode, "it acknowledges before it writes (persist_mode "+
			"async): what is acknowledged is lost in a crash", "make a stream with persist_mode default"),
		finding.WarnIf(c.Storage == jetstream.MemoryStorage && c.Replicas < 2, "it is in the memory of one server: "+
			"what is acknowledged is lost when that restarts", file),
		finding.WarnIf(c.Storage == jetstream.MemoryStorage, "it is in memory: what is acknowledged is lost when most "+
			"of its servers restart at once", file),
		finding.OKIf(true, "is on disk; an acknowledgement comes before the server syncs it (sync_interval, 2 minutes "+
			"unless set): a loss of power loses what is not on another replica"))
	// With limits and work queues the stream keeps what nobody has read yet.
	e.Add(checkRetention, c.Name,
		finding.WarnIf(c.Retention == jetstream.InterestPolicy && s.State.Consumers == 0, "it has no consumer, and "+
			"keeps only what one waits for (retention interest): what is acknowledged is dropped at once",
			"create its consumers before rows are relayed, or choose retention limits"))
	limited := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0
	e.Add(inspect.Limits, c.Name,
		finding.OKIf(limited && c.Discard != jetstream.DiscardNew, "drops its oldest messages at its limits, read or "+
			"not (discard old)"),
		finding.OKIf(limited, "holds rows when it is full (discard new)"),
		finding.OKIf(true, "has no limit of messages or bytes"))
	e.Add(inspect.Size, c.Name, finding.OKIf(c.MaxMsgSize > 0,
		fmt.Sprintf("takes messages of up to %d bytes with headers; larger rows fail", c.MaxMsgSize)))
	// The window is what makes a repeated publish harmless: whoever publishes again within it is told that the stream
	// has the message.
	window := fmt.Sprintf("recognises a message by its Nats-Msg-Id for %v: after a longer outage the rows whose "+
		"answers were lost, at most %s, may be stored twice", c.Duplicates, e.link.p.names.Of("MaxInFlight"))
	e.Add(checkDuplicates, c.Name,
		finding.WarnIf(c.Duplicates < shortWindow, window,
			"if no two rows have the same id that long (message_id), raise duplicate_window above the longest outage"),
		finding.OKIf(true, window))
}
