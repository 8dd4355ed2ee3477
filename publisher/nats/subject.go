package nats

import (
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// maxSubject is the maximum length of a subject in bytes. A server ends the connection if a protocol line is longer
// than max_control_line, 4096 by default. The line also holds the reply subject and two sizes.
const maxSubject = 4096 - 96

// checkSubject returns the answer for a message whose subject must not be used. inboxes is the prefix of reply
// subjects. The server itself checks nothing: it would store a wildcard literally, split the line at a space, or never
// find a stream for an empty token. nats.go's own check is turned off, because this one refuses more.
func checkSubject(subject, inboxes string) error {
	illegal := func(why string) error {
		return publisher.PermanentError("illegal subject", "the subject %.128q is illegal: %s", subject, why)
	}
	switch {
	case subject == "":
		return illegal("it is empty")
	case len(subject) > maxSubject-max(0, len(inboxes)-len(nats.InboxPrefix)):
		return illegal("it is too long for a NATS server")
	// A publish to $JS.API would be a command to JetStream, and a row must not give one.
	case subject[0] == '$':
		return illegal("subjects that begin with $ belong to the NATS server")
	case strings.HasPrefix(subject, nats.InboxPrefix), strings.HasPrefix(subject, inboxes):
		return illegal("subjects below " + nats.InboxPrefix + " and " + inboxes +
			" are for answers, and clients take what arrives there for one")
	}
	// A space or line break would end the subject in the middle of the protocol line, and the rest would be taken for
	// the reply subject or the size.
	for i := range len(subject) {
		if c := subject[i]; c <= ' ' || c == 0x7f {
			return illegal("it has a space or control character")
		}
	}
	for token := range strings.SplitSeq(subject, ".") {
		switch token {
		case "":
			return illegal("it has an empty token")
		case "*", ">":
			return illegal("it has a wildcard")
		}
	}
	return nil
}
