package publisher

// A Protocol is what a broker speaks. Each has its own binding of a wire format such as CloudEvents: which headers and properties
// carry it.
type Protocol string

// The protocols that wire formats have a binding for.
const (
	ProtocolKafka Protocol = "kafka"
	ProtocolNATS  Protocol = "nats"
	ProtocolAMQP  Protocol = "amqp"
)

// A Speaker is a [Publisher] whose messages follow the conventions of a [Protocol]. Those of any other publisher have the wire formats
// that Kafka's have.
type Speaker interface {
	Protocol() Protocol
}

// ProtocolOf returns the protocol of a publisher, empty if it does not name one.
func ProtocolOf(p Publisher) Protocol {
	if s, ok := p.(Speaker); ok {
		return s.Protocol()
	}
	return ""
}
