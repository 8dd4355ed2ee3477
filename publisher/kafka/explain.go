package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

// remedySilent is what to do about a broker that is silent: it may be another server, or one that speaks TLS.
const remedySilent = "check the network, host and port in the publish URL, and whether it should be kafka:// or kafka+tls://"

// A step is a part of making a connection.
type step uint8

const (
	stepDial step = iota
	stepTLS
	stepVersions
	stepCredentials // our own, before they are sent
	stepLogin
	stepRequest // the first request after all that
)

// A linkError says in one sentence why a broker cannot be used, and what to change.
type linkError struct {
	short   string
	address string
	found   string
	remedy  string
	err     error // the cause; nil when found says it all
}

func (e *linkError) Error() string {
	text := "kafka broker " + e.address + ": " + e.found + ": " + e.remedy
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *linkError) Unwrap() error { return e.err }

// shortOf names the reason why a broker could not be reached.
func shortOf(err error) string {
	if e, ok := errors.AsType[*linkError](err); ok {
		return e.short
	}
	return "broker unreachable"
}

// errMechanism is that the broker does not know our SASL mechanism.
type errMechanism struct {
	name    string
	offered []string
}

func (e *errMechanism) Error() string {
	return fmt.Sprintf("it offers %.200s but not %s", strings.Join(e.offered, ", "), e.name)
}

// errIAM is that the broker refuses a login with AWS_MSK_IAM.
type errIAM struct{ err error }

func (e *errIAM) Error() string { return e.err.Error() }
func (e *errIAM) Unwrap() error { return e.err }

// errExpired is a certificate out of its time. The library's own text tells the time of the check, and so
// is another one each time.
type errExpired struct{ cert *x509.Certificate }

func (e *errExpired) Error() string {
	return fmt.Sprintf("it is valid from %s to %s", e.cert.NotBefore.UTC().Format(time.RFC3339), e.cert.NotAfter.UTC().Format(time.RFC3339))
}

// explain turns a failure to make a connection ready into a sentence that says what to change. It has no
// secrets if err has none.
func (p *Publisher) explain(address string, at step, err error) error {
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		err = &errExpired{invalid.Cert}
	}
	if operation, ok := errors.AsType[*net.OpError](err); ok && (operation.Op == "read" || operation.Op == "write") {
		err = operation.Err // without a port of our own, which would make it another text each time
	}
	link := func(short, found, remedy string) error { return &linkError{short, address, found, remedy, err} }
	_, dns := errors.AsType[*net.DNSError](err)
	_, mechanism := errors.AsType[*errMechanism](err)
	_, iam := errors.AsType[*errIAM](err)
	switch {
	case dns && !slices.Contains(p.config.Brokers, address):
		return link("unknown host", "the cluster names this address, but it cannot be resolved here",
			"set advertised.listeners of the broker to a name that is known here")
	case dns:
		return link("unknown host", "its host name cannot be resolved", "check the publish URL")
	case at == stepDial && errors.Is(err, syscall.ECONNREFUSED):
		return link("connection refused", "nothing listens there", "check that the broker runs, and host and port in the publish URL")
	case at == stepTLS:
		return explainTLS(link, err)
	case errors.Is(err, errNotKafka):
		return link("not Kafka", "what answers there does not speak Kafka's protocol",
			"check host and port in the publish URL, and whether it should be kafka:// or kafka+tls://")
	case at == stepCredentials:
		return link("credentials unusable", "the SASL credentials cannot be used", "check OUTBOX_KAFKA_SASL_…, OUTBOX_KAFKA_OAUTH_… or the AWS_… variables")
	case mechanism:
		return link("login refused", "it does not know the SASL mechanism", "change OUTBOX_KAFKA_SASL_MECHANISM to one that it offers")
	case at == stepLogin && errors.Is(err, kafkago.IllegalSASLState):
		return link("login refused", "this listener takes no SASL", "take the port of one that does, or remove OUTBOX_KAFKA_SASL_MECHANISM")
	case iam:
		return link("login refused", "it refuses the login with AWS_MSK_IAM",
			"grant the role kafka-cluster:Connect on this cluster, and check the region, the port (9098 within the VPC) and the clock")
	case at == stepLogin && errors.Is(err, kafkago.SASLAuthenticationFailed):
		return link("login refused", "it refuses the login", "check the credentials in OUTBOX_KAFKA_SASL_… or OUTBOX_KAFKA_OAUTH_…")
	case network.RefusedTLS(err):
		return link("TLS refused", "it ended the TLS session", "give a client certificate that it trusts, OUTBOX_TLS_CERT and OUTBOX_TLS_KEY")
	case network.TimedOut(err):
		return link("no answer", "it does not answer", remedySilent)
	case network.Ended(err) && at == stepRequest:
		return link("connection ended", "it ended the connection at the first request", "if it wants SASL, give OUTBOX_KAFKA_SASL_MECHANISM")
	case network.Ended(err) && at == stepVersions && p.config.TLS == nil:
		return link("connection ended", "it ended the connection at once",
			"if it wants TLS write kafka+tls://, else check that the port is Kafka's")
	case network.Ended(err) && at == stepVersions:
		return link("connection ended", "it ended the connection at once",
			"if it wants a client certificate give OUTBOX_TLS_CERT and OUTBOX_TLS_KEY, else check that the port is Kafka's")
	default:
		return link("broker unreachable", "it cannot be used", "check that it runs, its address, and the network, TLS and SASL settings")
	}
}

// explainTLS is explain for the TLS handshake.
func explainTLS(link func(short, found, remedy string) error, err error) error {
	const untrusted = "certificate not trusted"
	_, expired := errors.AsType[*errExpired](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, hostname := errors.AsType[x509.HostnameError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case expired:
		return link("certificate expired", "its certificate has expired or is not valid yet", "renew it, and compare the clocks")
	case hostname:
		return link(untrusted, "its certificate is for another name", "use that name in the publish URL, or give it as OUTBOX_TLS_SERVER_NAME")
	case authority:
		return link(untrusted, "its certificate is signed by an unknown authority", "give that one's certificate as OUTBOX_TLS_CA_FILE")
	case invalid:
		return link(untrusted, "its certificate is not one for a server", "issue another one")
	case plain, network.Ended(err):
		return link("no TLS", "it does not speak TLS there",
			"write kafka:// or take the port of a listener with TLS, and check that it is Kafka's")
	case network.RefusedTLS(err):
		return link("TLS refused", "it refuses the TLS handshake", "give a client certificate that it trusts, OUTBOX_TLS_CERT and OUTBOX_TLS_KEY")
	case network.TimedOut(err):
		return link("no answer", "it does not answer to TLS", "check the network, and whether it should be kafka://")
	default:
		return link("TLS failed", "the TLS handshake failed", "check OUTBOX_TLS_CA, OUTBOX_TLS_CERT, OUTBOX_TLS_KEY and OUTBOX_TLS_SERVER_NAME")
	}
}
