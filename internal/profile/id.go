package profile

import (
	"net/url"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// IDOf returns a function that finds the id of a row in a message that a broker holds, by the wire format in which the
// message was written.
func IDOf(name string, to publisher.Protocol) func(*publisher.Stored) string {
	header := func(name string) func(*publisher.Stored) string {
		return func(s *publisher.Stored) string { return s.Header(name) }
	}
	switch {
	case name == CloudEvents && to == publisher.ProtocolNATS:
		return func(s *publisher.Stored) string {
			id, err := url.PathUnescape(s.Header("ce-id"))
			if err != nil {
				return "" // another writer's message
			}
			return id
		}
	case name == CloudEvents:
		return header("ce_id")
	case name == Debezium:
		return header("id")
	case name == PhoenixMicro && to == publisher.ProtocolNATS:
		return header("x-message-id")
	case name == PhoenixMicro:
		return func(s *publisher.Stored) string { return string(s.Key) }
	default:
		return header(publisher.HeaderMessageID)
	}
}
