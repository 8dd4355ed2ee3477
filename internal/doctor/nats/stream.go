package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// shortWindow is the shortest duplicate window that servers choose themselves.
const shortWindow = 2 * time.Minute

// The subjects at which JetStream answers: questions about the account, the stream of a subject, and a stream's state.
func (e *examination) infoSubject() string  { return e.link.API + "INFO" }
func (e *examination) namesSubject() string { return e.link.API + "STREAM.NAMES" }
func (e *examination) streamSubject(stream string) string {
	return e.link.API + "STREAM.INFO." + stream
}

// A streamInfo is what JetStream reports about a stream.
type streamInfo struct {
	nats.StreamInfo
	Config struct {
		nats.StreamConfig
		Persist string `json:"persist_mode"`
	} `json:"config"`
}

// ask asks JetStream a question and decodes the answer. It reports a failure as a finding, and returns whether there is
// an answer. unseen says what was not looked at if the user may not ask.
func (e *examination) ask(ctx context.Context, api string, question []byte, answer any, check, subject, unseen string,
) bool {
	const log = "look at the server's log"
	m, denied, err := e.link.Request(ctx, api, question)
	var refused struct {
		Error *nats.APIError `json:"error"`
	}
	switch {
	case err != nil:
		e.Fail(check, subject, err.Error(), log)
	case denied:
		e.Warn(inspect.Permission, subject, "the user may not ask "+unseen, "grant publish on "+e.namesSubject()+" "+
			"and "+e.streamSubject(">"))
	case json.Unmarshal(m.Data, answer) != nil || json.Unmarshal(m.Data, &refused) != nil:
		e.Fail(check, subject, "what answers for JetStream is not JetStream",
			"look for a service that is subscribed to "+e.link.API+">")
	case refused.Error != nil:
		e.Fail(check, subject, fmt.Sprintf("JetStream does not report it: %s (error %d)",
			refused.Error.Description, refused.Error.ErrorCode), log)
	default:
		return true
	}
	return false
}

// topics finds the streams of subjects, and examines each stream once.
func (e *examination) topics(ctx context.Context, subjects []string) {
	streams := map[string]string{} // by subject; "" if no stream lists it
	listed := false
	for _, subject := range subjects {
		var answer struct{ Streams []string }
		question, _ := json.Marshal(map[string]string{"subject": subject}) // strings can always be encoded
		if e.ask(ctx, e.namesSubject(), question, &answer, inspect.Topic, subject, "which stream takes the subject, "+
			"so it was not looked at") {
			streams[subject] = strings.Join(answer.Streams[:min(1, len(answer.Streams))], "")
			listed = listed || streams[subject] != ""
		}
	}
	expected, seen := e.link.Stream, map[string]bool{"": true}
	// An account that maps or imports subjects has streams that list none of them.
	mapped := !listed && e.hasStreams(ctx)
	for _, subject := range subjects {
		name, known := streams[subject]
		if !known {
			continue
		}
		e.Add(inspect.Topic, subject,
			finding.WarnIf(name == "" && mapped, "no stream lists the subject, so its rows are held, unless the "+
				"account maps or imports it under another name, which JetStream does not report",
				"create a stream, or add the subject to one; if the account maps it, see in the relay's "+
					"/readyz?verbose whether rows are held, and name the stream in "+e.names.Of("Stream")+", so that "+
					"verify finds the messages"),
			finding.FailIf(name == "", "no stream takes the subject: its rows are held", "create a stream, or add the "+
				"subject to one"),
			finding.FailIf(expected != "" && expected != name, fmt.Sprintf("the stream %s takes the subject, not %s: "+
				"its rows are held", name, expected), "correct "+e.names.Of("Stream")+", or the streams' subjects"),
			finding.OKIf(true, "goes to the stream "+name))
		if name == "" && mapped {
			name = expected
		}
		if !seen[name] && (expected == "" || expected == name) {
			seen[name] = true
			e.stream(ctx, name)
		}
	}
}

// hasStreams reports whether the account has a stream, as far as that is known.
func (e *examination) hasStreams(ctx context.Context) bool {
	m, denied, err := e.link.Request(ctx, e.namesSubject(), nil)
	var answer struct{ Streams []string }
	return err != nil || denied || json.Unmarshal(m.Data, &answer) != nil || len(answer.Streams) > 0
}

// stream examines whether a stream takes messages, and what its acknowledgement guarantees.
func (e *examination) stream(ctx context.Context, name string) {
	s := &streamInfo{}
	if !e.ask(ctx, e.streamSubject(name), nil, s, checkStream, name, "about the stream") {
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
		finding.FailIf(c.Persist == "async", "it acknowledges before it writes (persist_mode async): what is "+
			"acknowledged is lost when its server ends unexpectedly", "make a stream with persist_mode default"),
		finding.WarnIf(c.Storage == nats.MemoryStorage && c.Replicas < 2, "it is in the memory of one server: what is "+
			"acknowledged is lost when that restarts", file),
		finding.WarnIf(c.Storage == nats.MemoryStorage, "it is in memory: what is acknowledged is lost when most of "+
			"its servers restart at once", file),
		finding.OKIf(true, "is on disk; an acknowledgement comes before the server syncs it (sync_interval, 2 minutes "+
			"unless set): a loss of power loses what is not on another replica"))
	// With limits and work queues the stream keeps what nobody has read yet.
	e.Add(checkRetention, c.Name,
		finding.WarnIf(c.Retention == nats.InterestPolicy && s.State.Consumers == 0, "it keeps only what a consumer "+
			"waits for (retention interest), and has no consumer: what is acknowledged is dropped at once",
			"create its consumers before rows are relayed, or choose retention limits"))
	e.limits(s)
	// The window is what makes a repeated publish harmless: whoever publishes again within it is told that the stream
	// has the message.
	window := fmt.Sprintf("recognises a message by its Nats-Msg-Id for %v: after a longer outage the rows whose "+
		"answers were lost, at most %s, may be stored twice", c.Duplicates, e.names.Of("MaxInFlight"))
	e.Add(checkDuplicates, c.Name,
		finding.WarnIf(c.Duplicates < shortWindow, window,
			"see that no two rows have the same Nats-Msg-Id for as long (message_id), then raise duplicate_window "+
				"above the longest outage of the server, the database or the relay; it costs the server memory"),
		finding.OKIf(true, window))
}

// limits examines what happens when the stream is full.
func (e *examination) limits(s *streamInfo) {
	c := &s.Config
	limited := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0
	e.Add(inspect.Limits, c.Name,
		finding.OKIf(limited && c.Discard != nats.DiscardNew, "drops its oldest messages at its limits, read or not "+
			"(discard old)"),
		finding.OKIf(limited, "holds rows when it is full (discard new)"),
		finding.OKIf(true, "has no limit of messages or bytes"))
	if c.MaxMsgSize > 0 {
		e.Well(inspect.Size, c.Name, fmt.Sprintf("takes messages of up to %d bytes with headers; larger rows fail",
			c.MaxMsgSize))
	}
}
