package amqp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// address returns host:port without anything secret.
func address(uri amqp091.URI) string {
	return net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
}

// unavailable is the answer when there is no connection.
func unavailable(short, format string, args ...any) error {
	return publisher.UnavailableError(publisher.ScopeDestination, short, format, args...)
}

// explain turns a failure to connect into a sentence that says what to change.
func explain(uri amqp091.URI, err error) error {
	at := address(uri)
	answer, answered := errors.AsType[*amqp091.Error](err)
	_, dns := errors.AsType[*net.DNSError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	network, isNetwork := errors.AsType[net.Error](err)

	switch {
	case errors.Is(err, amqp091.ErrSASL):
		return unavailable("no login mechanism", "RabbitMQ at %s offers none of our login mechanisms: check auth_mechanism in the publish URL", at)
	case errors.Is(err, amqp091.ErrVhost):
		return unavailable("vhost refused", "RabbitMQ at %s closed the connection when virtual host %q was opened: check the vhost in the publish URL", at, uri.Vhost)
	case answered && answer.Code == amqp091.AccessRefused:
		return unavailable("login refused", "RabbitMQ at %s refused the login of user %q (ACCESS_REFUSED): check user and password in the publish URL", at, uri.Username)
	case answered && answer.Code == amqp091.NotAllowed:
		return unavailable("vhost refused", "RabbitMQ at %s does not let user %q into virtual host %q (%s): create the vhost, grant access to it, or change the publish URL",
			at, uri.Username, uri.Vhost, answer.Reason)
	case dns:
		return unavailable("unknown host", "the host name of RabbitMQ at %s cannot be resolved: check the host in the publish URL: %w", at, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return unavailable("connection refused", "nothing accepts connections at %s: check that RabbitMQ runs there, and host and port in the publish URL: %w", at, err)
	case untrusted:
		return unavailable("certificate refused", "the certificate of RabbitMQ at %s is not accepted: set the CA and the server name it was issued for: %w", at, err)
	case plain:
		return unavailable("no TLS", "the port %s does not speak TLS: use amqp:// or the TLS port, usually 5671: %w", at, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNetwork && network.Timeout():
		return unavailable("no answer", "RabbitMQ at %s does not answer: check the network, and host and port in the publish URL: %w", at, err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), answered:
		return unavailable("handshake ended", "RabbitMQ at %s ended the connection during the handshake: check that it is the AMQP port, with amqps:// if it wants TLS: %w", at, err)
	default:
		return unavailable("no connection", "connect to RabbitMQ at %s: %w", at, err)
	}
}
