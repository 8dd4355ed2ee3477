package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	kafkago "github.com/segmentio/kafka-go"
)

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
	short string
	err   error
}

func (e *linkError) Error() string { return e.err.Error() }
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
	return fmt.Sprintf("it does not offer the SASL mechanism %s, only %.200s: change OUTBOX_KAFKA_SASL_MECHANISM", e.name, strings.Join(e.offered, ", "))
}

// explain turns a failure to make a connection ready into a sentence that says what to change. It has no
// secrets if err has none.
func (p *Publisher) explain(address string, at step, err error) error {
	link := func(short, format string) error {
		return &linkError{short, fmt.Errorf("kafka broker %s: "+format, address, err)}
	}
	_, dns := errors.AsType[*net.DNSError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	mechanism, unknown := errors.AsType[*errMechanism](err)
	switch {
	case errors.Is(err, context.Canceled):
		return link("connection ended", "%w")
	case dns && !p.configured(address):
		return link("unknown host", "the cluster names this address (advertised.listeners), but it cannot be resolved here: %w")
	case dns:
		return link("unknown host", "the host name cannot be resolved: check the publish URL: %w")
	case at == stepDial && errors.Is(err, syscall.ECONNREFUSED):
		return link("connection refused", "nothing listens there: check that the broker runs, and host and port in the publish URL: %w")
	case at == stepTLS:
		return p.explainTLS(address, err, plain)
	case errors.Is(err, errNotKafka):
		return link("not Kafka", "%w")
	case at == stepCredentials:
		return link("credentials unusable", "the SASL credentials cannot be used: %w")
	case unknown:
		return &linkError{"login refused", fmt.Errorf("kafka broker %s: %w", address, mechanism)}
	case at == stepLogin && errors.Is(err, kafkago.IllegalSASLState):
		return link("login refused", "this listener wants no SASL: take the port of one that does, or remove OUTBOX_KAFKA_SASL_MECHANISM: %w")
	case at == stepLogin && errors.Is(err, kafkago.SASLAuthenticationFailed):
		return link("login refused", "it refuses the login: check the credentials in OUTBOX_KAFKA_SASL_… or OUTBOX_KAFKA_OAUTH_…: %w")
	case remote(err):
		return link("TLS refused", "it ended the TLS session: it may want a client certificate that it trusts, see OUTBOX_TLS_CERT and OUTBOX_TLS_KEY: %w")
	case timedOut(err):
		return link("no answer", "it does not answer: check the network, host and port in the publish URL, and whether it wants TLS (kafka+tls://): %w")
	case ended(err) && at == stepRequest:
		return link("connection ended", "it ended the connection at the first request: if it wants SASL, give OUTBOX_KAFKA_SASL_MECHANISM: %w")
	case ended(err) && at == stepVersions && p.config.TLS == nil:
		return link("connection ended", "it ended the connection at once: if it wants TLS, write kafka+tls://, else check that the port is Kafka's: %w")
	case ended(err) && at == stepVersions:
		return link("connection ended", "it ended the connection at once: it may want a client certificate, see OUTBOX_TLS_CERT, or not be Kafka: %w")
	default:
		return link("broker unreachable", "%w: check that it runs, its address, and the network, TLS and SASL settings")
	}
}

// explainTLS is explain for the TLS handshake.
func (p *Publisher) explainTLS(address string, err error, plain bool) error {
	link := func(short, format string) error {
		return &linkError{short, fmt.Errorf("kafka broker %s: "+format, address, err)}
	}
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, hostname := errors.AsType[x509.HostnameError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case isInvalid && invalid.Reason == x509.Expired:
		return link("certificate expired", "its certificate is expired or not yet valid: renew it, and compare the clocks: %w")
	case hostname:
		return link("certificate not trusted", "its certificate is for another name: use that in the publish URL, or give it as OUTBOX_TLS_SERVER_NAME: %w")
	case authority:
		return link("certificate not trusted", "its certificate is signed by an unknown authority: give that one's certificate as OUTBOX_TLS_CA_FILE: %w")
	case isInvalid:
		return link("certificate not trusted", "its certificate is not valid for a server: %w")
	case plain, ended(err):
		return link("no TLS", "it does not speak TLS there: write kafka:// or take the port of a listener with TLS, and check that it is Kafka's: %w")
	case remote(err):
		return link("TLS refused", "it refuses the TLS handshake: it may want a client certificate that it trusts, see OUTBOX_TLS_CERT and OUTBOX_TLS_KEY: %w")
	case timedOut(err):
		return link("no answer", "it does not answer to TLS: check the network and that the port is one with TLS, else write kafka://: %w")
	default:
		return link("TLS failed", "the TLS handshake failed: check OUTBOX_TLS_CA, OUTBOX_TLS_CERT, OUTBOX_TLS_KEY and OUTBOX_TLS_SERVER_NAME: %w")
	}
}

// configured reports whether the address is one of the configuration's, not one that the cluster named.
func (p *Publisher) configured(address string) bool {
	for _, broker := range p.config.Brokers {
		if broker == address {
			return true
		}
	}
	return false
}

// remote reports whether the other side has ended a TLS session with an alert, whose type is not exported.
func remote(err error) bool {
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && operation.Op == "remote error"
}

func timedOut(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && network.Timeout()
}

func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
