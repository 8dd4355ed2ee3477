package profile

import (
	"net/url"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// IDOf returns a function that finds the id of a row in a message that a broker holds, by the wire format in which the
// message was written.
func IDOf(name string, to publisher.Protocol) func(*publisher.Stored) string {
	onNATS := to == publisher.ProtocolNATS
	return func(s *publisher.Stored) string {
		switch {
		case name == CloudEvents && onNATS:
			id, _ := url.PathUnescape(s.Header("ce-id")) // empty in another writer's message
			return id
		case name == PhoenixMicro && !onNATS:
			return string(s.Key)
		}
		return s.Header(formats[name].id)
	}
}
