package publisher

// A Protocol is a protocol that a broker speaks. For each one, a wire format such as CloudEvents has its own binding,
// which says what headers and properties carry it.
type Protocol string

// The protocols for which wire formats have a binding.
const (
	ProtocolKafka Protocol = "kafka"
	ProtocolNATS  Protocol = "nats"
	ProtocolAMQP  Protocol = "amqp"
)

// A Speaker is a [Publisher] whose messages follow the conventions of a [Protocol]. Messages of any other publisher use
// Kafka's wire formats.
type Speaker interface {
	Protocol() Protocol
}

// ProtocolOf returns the protocol of a publisher, or "" if it does not name one.
func ProtocolOf(p Publisher) Protocol {
	if s, ok := p.(Speaker); ok {
		return s.Protocol()
	}
	return ""
}
