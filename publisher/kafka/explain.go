package kafka

import (
	"cmp"
	"errors"
	"slices"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// A credentialsError is an error in this client's own credentials. The broker has no part in it.
type credentialsError struct{ error }

func (p *Publisher) attempt(address string) *connect.Attempt {
	return &connect.Attempt{
		Broker: "kafka broker", Address: address, Servers: p.names.Of("Brokers"), Names: p.names,
		Plain: "kafka://", Secure: "kafka+tls://",
	}
}

// shortOf names the reason why a broker could not be reached.
func shortOf(err error) string {
	if f, ok := errors.AsType[*connect.Failure](err); ok {
		return f.Short
	}
	return "broker unreachable"
}

// explain turns a failure to make a connection ready into a sentence that says what to change. It holds no secrets if
// err holds none.
//
// The order of the cases matters: what is known for certain comes first. A broker that ends a connection without a word
// is the hardest case. It may expect TLS, none, a client certificate or a login, or may have reached a limit of
// connections.
func (p *Publisher) explain(address string, err error) error {
	err = connect.Stable(err)
	a := p.attempt(address)
	_, own := errors.AsType[credentialsError](err)
	network := a.Network(err)
	known := cmp.Or(network, a.TLS(err))
	switch {
	case own:
		return a.FailedLogin("credentials unusable", "the SASL credentials cannot be used",
			"check "+p.names.Of("SASL.Credentials")+", or the AWS_… variables", err)
	case network != nil && !slices.Contains(p.config.Brokers, address):
		return a.Failed(network.Short, "the cluster names this address, but "+network.Found,
			"check that this broker runs, and that its advertised.listeners names an address that is reached from here",
			nil)
	case known != nil:
		return known
	case errors.Is(err, errNotKafka):
		return a.Failed("not Kafka", "what answers there does not speak Kafka's protocol",
			"check host and port in "+a.Servers+", and whether it should be kafka:// or kafka+tls://", err)
	case errors.Is(err, kafkago.UnsupportedSASLMechanism), errors.Is(err, kafkago.IllegalSASLState):
		return a.FailedLogin("login refused", "its listener does not take this SASL mechanism",
			"change "+p.names.Of("SASL.Mechanism")+" to one that it offers, or take another listener's port", err)
	case errors.Is(err, kafkago.SASLAuthenticationFailed):
		return a.FailedLogin("login refused", "it refuses the login",
			"check the credentials in "+p.names.Of("SASL.Credentials")+
				"; AWS_MSK_IAM needs the right kafka-cluster:Connect, the cluster's region and a correct clock", err)
	case connect.Ended(err):
		wants := "it wants TLS, write kafka+tls://"
		if p.config.TLS != nil {
			wants = "the listener has no TLS, write kafka://; if it wants a client certificate, give " +
				p.names.Of("TLS.Certificates")
		}
		return a.Failed("connection ended", "it ended the connection", "if "+wants+"; if it wants SASL, give "+
			p.names.Of("SASL.Mechanism")+"; else check that the port is Kafka's, and the broker's max.connections "+
			"and max.connections.per.ip", err)
	default:
		return a.Failed("broker unreachable", "it cannot be used",
			"check that it runs, its address, and the network, TLS and SASL settings", err)
	}
}
