package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// shortWindow is the shortest duplicate window that servers choose themselves.
const shortWindow = 2 * time.Minute

// The subjects at which JetStream answers: requests about the account, the stream of a subject, and a stream's state.
func (e *examination) infoSubject() string  { return e.link.API + "INFO" }
func (e *examination) namesSubject() string { return e.link.API + "STREAM.NAMES" }
func (e *examination) streamSubject(stream string) string {
	return e.link.API + "STREAM.INFO." + stream
}

// An apiError is JetStream's error object.
type apiError struct {
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// A streamInfo is the part that matters here of what JetStream reports about a stream.
type streamInfo struct {
	Error  *apiError `json:"error"`
	Config struct {
		Name       string        `json:"name"`
		Storage    string        `json:"storage"`
		Replicas   int           `json:"num_replicas"`
		Discard    string        `json:"discard"`
		MaxMsgs    int64         `json:"max_msgs"`
		MaxBytes   int64         `json:"max_bytes"`
		MaxMsgSize int64         `json:"max_msg_size"`
		MaxAge     time.Duration `json:"max_age"`
		PerSubject int64         `json:"max_msgs_per_subject"`
		Duplicates time.Duration `json:"duplicate_window"`
		Sealed     bool          `json:"sealed"`
		NoAck      bool          `json:"no_ack"`
		Atomic     bool          `json:"allow_atomic"`
	} `json:"config"`
	State struct {
		Msgs  uint64 `json:"messages"`
		Bytes uint64 `json:"bytes"`
	} `json:"state"`
	Cluster struct {
		Name     string `json:"name"` // empty if the server is not part of a cluster
		Leader   string `json:"leader"`
		Replicas []struct {
			Current bool `json:"current"`
			Offline bool `json:"offline"`
		} `json:"replicas"` // besides the leader
	} `json:"cluster"`
}

// topic finds the stream of a subject, and examines it unless it has been examined already.
func (e *examination) topic(ctx context.Context, subject string, seen map[string]bool) {
	question, _ := json.Marshal(map[string]string{"subject": subject}) // strings can always be encoded
	m, denied, err := e.link.Request(ctx, e.namesSubject(), question)
	switch {
	case err != nil:
		e.Fail(checkTopic, subject, err.Error(), "look at the server's log")
		return
	case denied:
		e.Warn(checkPermission, subject, "the user may not ask which stream takes the subject, so it was not looked at",
			"grant publish on "+e.namesSubject()+" and "+e.streamSubject(">"))
		return
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Streams []string  `json:"streams"`
	}
	expected := e.link.Stream
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		e.Fail(checkTopic, subject, "what answers for JetStream is not JetStream: "+err.Error(),
			"look for a service that is subscribed to "+e.link.API+">")
	case answer.Error != nil:
		e.Fail(checkTopic, subject, fmt.Sprintf("JetStream does not report its stream: %s (error %d)", answer.Error.Description,
			answer.Error.ErrCode), "look at the server's log")
	case len(answer.Streams) == 0:
		e.Fail(checkTopic, subject, "no stream takes the subject: its rows are held", "create a stream, or add the subject to one")
	case expected != "" && expected != answer.Streams[0]:
		e.Fail(checkTopic, subject, fmt.Sprintf("the stream %s takes the subject, not %s: its rows are held", answer.Streams[0], expected),
			"correct "+e.names.Of("Stream")+", or the streams' subjects")
	default:
		name := answer.Streams[0]
		e.Well(checkTopic, subject, "goes to the stream "+name)
		if !seen[name] {
			seen[name] = true
			e.stream(ctx, name)
		}
	}
}

// stream examines whether a stream takes messages, and what its acknowledgement guarantees.
func (e *examination) stream(ctx context.Context, name string) {
	m, denied, err := e.link.Request(ctx, e.streamSubject(name), nil)
	switch {
	case err != nil:
		e.Fail(checkStream, name, err.Error(), "look at the server's log")
		return
	case denied:
		e.Warn(checkPermission, name, "the user may not look at the stream", "grant publish on "+e.streamSubject(">"))
		return
	}
	var info streamInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		e.Fail(checkStream, name, "JetStream reports nothing about the stream: "+err.Error(), "look at the server's log")
		return
	}
	if info.Error != nil {
		e.Fail(checkStream, name, fmt.Sprintf("%s (error %d)", info.Error.Description, info.Error.ErrCode), "look at the server's log")
		return
	}
	e.taking(&info)
	e.copies(&info)
	e.limits(&info)
	e.window(&info)
}

// taking reports whether the stream takes messages.
func (e *examination) taking(s *streamInfo) {
	switch c := &s.Config; {
	case c.Sealed:
		e.Fail(checkStream, c.Name, "it is sealed: it never takes a message again, and its rows are held", "move the subject to another stream")
	case c.NoAck:
		e.Fail(checkStream, c.Name, "it sends no acknowledgements (no_ack): no row ever counts as relayed", "turn no_ack off")
	case c.Atomic:
		e.Well(checkStream, c.Name, "acknowledges, and takes the messages of a busy key in atomic batches")
	default:
		e.Well(checkStream, c.Name, "acknowledges; the messages of one key go one after the other (allow_atomic would let them go together)")
	}
}

// copies examines where the messages are when they are acknowledged.
func (e *examination) copies(s *streamInfo) {
	c := &s.Config
	switch {
	case s.Cluster.Name != "" && s.Cluster.Leader == "":
		e.Fail(checkReplication, c.Name, "it has no leader: most of its servers are away, and its rows are held",
			"start the servers that hold it")
	case c.Replicas < 2:
		e.Warn(checkReplication, c.Name, "it has one replica: what is acknowledged is lost with its server's disk", "give it three replicas")
	default:
		behind := 0
		for _, r := range s.Cluster.Replicas {
			if r.Offline || !r.Current {
				behind++
			}
		}
		if behind > 0 {
			e.Warn(checkReplication, c.Name, fmt.Sprintf("of its %d replicas %d are away or behind", c.Replicas, behind),
				"look at the servers that hold it")
		} else {
			e.Well(checkReplication, c.Name, fmt.Sprintf("has %d replicas", c.Replicas))
		}
	}
	switch {
	case c.Storage != "memory":
		e.Well(checkStorage, c.Name, "is on disk")
	case c.Replicas < 2:
		e.Fail(checkStorage, c.Name, "it is in the memory of one server: what is acknowledged is lost when that restarts",
			"make a stream with storage file")
	default:
		e.Warn(checkStorage, c.Name, "it is in memory: what is acknowledged is lost when most of its servers restart at once",
			"make a stream with storage file")
	}
}

// limits examines what happens when the stream is full, and how full it is.
func (e *examination) limits(s *streamInfo) {
	c := &s.Config
	full := ""
	switch {
	case c.MaxMsgs > 0 && nearly(s.State.Msgs, c.MaxMsgs):
		full = fmt.Sprintf("it holds %d of %d messages", s.State.Msgs, c.MaxMsgs)
	case c.MaxBytes > 0 && nearly(s.State.Bytes, c.MaxBytes):
		full = fmt.Sprintf("it holds %d of %d bytes", s.State.Bytes, c.MaxBytes)
	}
	limited := c.MaxMsgs > 0 || c.MaxBytes > 0 || c.PerSubject > 0
	switch {
	case full != "" && c.Discard == "new":
		e.Warn(checkLimits, c.Name, full+": when it is full, rows are held", "make room in the stream or raise its limits")
	case full != "":
		e.Warn(checkLimits, c.Name, full+": each new message drops the oldest one, read or not (discard old)",
			"raise its limits, or choose discard new, which holds rows instead")
	case limited && c.Discard != "new":
		e.Well(checkLimits, c.Name, "drops its oldest messages at its limits, read or not (discard old)")
	case limited:
		e.Well(checkLimits, c.Name, "holds rows when it is full (discard new)")
	default:
		e.Well(checkLimits, c.Name, "has no limit of messages or bytes")
	}
	if c.MaxMsgSize > 0 {
		e.Well(checkSize, c.Name, fmt.Sprintf("takes messages of up to %d bytes with headers; larger rows fail", c.MaxMsgSize))
	}
}

// window examines how long the stream recognises duplicates.
func (e *examination) window(s *streamInfo) {
	c := &s.Config
	text := fmt.Sprintf("recognises a message by its Nats-Msg-Id for %v: after a longer outage the rows whose answers were lost, at most "+
		"%s, may be stored twice", c.Duplicates, e.names.Of("MaxInFlight"))
	if c.Duplicates < shortWindow {
		e.Warn(checkDuplicates, c.Name, text,
			"see that no two rows have the same Nats-Msg-Id for as long (message_id), then raise duplicate_window above the longest outage of the "+
				"server, the database or the relay; it costs the server memory")
	} else {
		e.Well(checkDuplicates, c.Name, text)
	}
}
