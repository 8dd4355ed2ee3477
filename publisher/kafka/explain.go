package kafka

import (
	"errors"
	"net"
	"slices"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// A step is a part of making a connection.
type step uint8

const (
	stepDial step = iota
	stepTLS
	stepVersions
	stepCredentials // this client's own, before they are sent
	stepMechanism   // the agreement on how to log in
	stepLogin
	stepIAM     // the login with AWS_MSK_IAM
	stepRequest // the first request after the other steps
)

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
// The order of the cases matters: what is known for certain comes before what the step alone suggests. A broker that
// ends a connection without a word is the hardest case. It may expect TLS or a client certificate, may have reached a
// limit of connections, or may refuse the login, and only the step tells these apart.
func (p *Publisher) explain(address string, at step, err error) error {
	err = connect.Stable(err)
	a := p.attempt(address)
	failed := func(short, found, remedy string) error { return a.Failed(short, found, remedy, err) }
	absent := func(short, found, remedy string) error { return a.FailedAbsent(short, found, remedy, err) }
	login := func(found, remedy string) error { return a.FailedLogin("login refused", found, remedy, err) }
	_, dns := errors.AsType[*net.DNSError](err)
	known := a.Network(err)
	if at == stepTLS && known == nil {
		known = a.TLS(err)
	}
	switch {
	case dns && !slices.Contains(p.config.Brokers, address):
		return failed("unknown host", "the cluster names this address, but it cannot be resolved here",
			"set advertised.listeners of the broker to a name that is known here")
	case known != nil && at == stepDial && !slices.Contains(p.config.Brokers, address):
		return a.FailedAbsent(known.Short, "the cluster names this address, but "+known.Found,
			"check that this broker runs, and that its advertised.listeners names an address that is reached from here",
			nil)
	case errors.Is(err, errRegion):
		return a.FailedLogin("credentials unusable", "its name contains no AWS region",
			"give the region as "+p.names.Of("IAM.Region")+" or AWS_REGION", nil)
	case at == stepCredentials:
		return a.FailedLogin("credentials unusable", "the SASL credentials cannot be used",
			"check "+p.names.Of("SASL.Credentials")+", or the AWS_… variables", err)
	case known != nil:
		return known
	case at == stepTLS && connect.Ended(err):
		return failed("no TLS", "it does not speak TLS there",
			"correct host and port in "+a.Servers+", or write kafka:// if it is a listener without TLS")
	case at == stepTLS:
		return failed("TLS failed", "the TLS handshake failed",
			"check "+p.names.Of("TLS.RootCAs")+", "+p.names.Of("TLS.Certificates")+" and "+p.names.Of("TLS.ServerName"))
	case errors.Is(err, errNotKafka):
		return failed("not Kafka", "what answers there does not speak Kafka's protocol",
			"check host and port in "+a.Servers+", and whether it should be kafka:// or kafka+tls://")
	case at == stepMechanism:
		return login("it does not know the SASL mechanism",
			"change "+p.names.Of("SASL.Mechanism")+" to one that it offers")
	case errors.Is(err, kafkago.IllegalSASLState):
		return login("this listener takes no SASL",
			"take the port of one that does, or remove "+p.names.Of("SASL.Mechanism"))
	case at == stepIAM && errors.Is(err, kafkago.SASLAuthenticationFailed):
		return login("it refuses the login with AWS_MSK_IAM",
			"grant the role kafka-cluster:Connect on this cluster, and check the region, the port (9098 within the "+
				"VPC) and the clock")
	case at == stepLogin && errors.Is(err, kafkago.SASLAuthenticationFailed):
		return login("it refuses the login", "check the credentials in "+p.names.Of("SASL.Credentials"))
	case connect.RefusedTLS(err):
		return a.Refused(err)
	case connect.Ended(err) && at == stepRequest && p.config.SASL == nil:
		return absent("connection ended", "it ended the connection at the first request",
			"if it wants SASL, give "+p.names.Of("SASL.Mechanism"))
	case connect.Ended(err) && at == stepVersions:
		wants := "TLS write kafka+tls://"
		if p.config.TLS != nil {
			wants = "a client certificate give " + p.names.Of("TLS.Certificates")
		}
		return absent("connection ended", "it ended the connection at once", "if it wants "+wants+
			"; else check that the port is Kafka's, and the broker's max.connections and max.connections.per.ip")
	default:
		return absent("broker unreachable", "it cannot be used",
			"check that it runs, its address, and the network, TLS and SASL settings")
	}
}
