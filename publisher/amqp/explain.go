package amqp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

// address returns host:port without anything secret.
func address(uri amqp091.URI) string {
	return net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
}

// unavailable is the answer when there is no connection.
func unavailable(short, format string, args ...any) error {
	return publisher.UnavailableError(publisher.ScopeDestination, short, format, args...)
}

// A linkError says in one sentence why there is no connection, and what to change. For one state of
// affairs it says the same each time, without ports of our own or the time of day, so that nobody logs
// it twice.
type linkError struct {
	short   string
	address string
	found   string
	remedy  string
	absent  bool // nobody answers, or what answers is about to start or to end
}

func (e *linkError) Error() string {
	return "RabbitMQ at " + e.address + ": " + e.found + ": " + e.remedy
}

// An attempt is one to connect, and what came of it.
type attempt struct {
	uri        amqp091.URI
	secure     bool     // with TLS
	token      bool     // in the place of a password
	mechanisms []string // that we would log in with
	socket     *socket  // nil if there was none
}

// explain turns a failure to connect into an answer that says what to change.
func (a *attempt) explain(err error) error {
	e := a.reason(err)
	e.address = address(a.uri)
	return unavailable(e.short, "%w", e)
}

func (a *attempt) reason(err error) *linkError {
	server, isServer := errors.AsType[*amqp091.Error](err)
	_, dns := errors.AsType[*net.DNSError](err)
	var first []byte
	var ended error // why the handshake broke off; the library only keeps the text
	if a.socket != nil {
		if first, ended = a.socket.heard(); len(first) > 0 && first[0] != frameMethod {
			return stranger(first)
		}
	}
	switch {
	case errors.Is(err, amqp091.ErrSASL) && a.external():
		return &linkError{short: "no login mechanism", found: "it does not offer to log in with EXTERNAL",
			remedy: "enable its plugin rabbitmq_auth_mechanism_ssl and the mechanism EXTERNAL, and give a client certificate, OUTBOX_TLS_CERT and " +
				"OUTBOX_TLS_KEY, that it trusts"}
	case errors.Is(err, amqp091.ErrSASL):
		return &linkError{short: "no login mechanism", found: "it does not offer to log in with " + strings.Join(a.mechanisms, " or "),
			remedy: "change OUTBOX_AMQP_SASL_MECHANISM to one of its auth_mechanisms"}
	case isServer && server.Server && server.Code == amqp091.AccessRefused && a.external():
		return &linkError{short: "login refused", found: "it finds no user for the client certificate",
			remedy: "give one of an authority that it trusts, OUTBOX_TLS_CERT and OUTBOX_TLS_KEY, and create the user that its setting " +
				"ssl_cert_login_from takes from it"}
	case a.token && (isServer && server.Server && server.Code == amqp091.AccessRefused || errors.Is(err, amqp091.ErrCredentials)):
		return &linkError{short: "login refused", found: "it refuses the OAuth token",
			remedy: "check OUTBOX_AMQP_OAUTH_…, that the token has not expired and that its audience is the broker's resource_server_id, and at " +
				"the broker rabbitmq_auth_backend_oauth2 and the key that signs tokens"}
	case a.token && isServer && server.Server && server.Code == amqp091.NotAllowed:
		return &linkError{short: "vhost refused", found: fmt.Sprintf("it does not let the OAuth token into virtual host %q (%s)", a.uri.Vhost,
			server.Reason),
			remedy: "create the vhost, change it in the publish URL, or grant a scope for it, such as rabbitmq.write:VHOST/*"}
	case isServer && server.Server && server.Code == amqp091.AccessRefused:
		return &linkError{short: "login refused", found: fmt.Sprintf("it refuses the login of user %q", a.uri.Username),
			remedy: "check user and password in the publish URL (the user guest may log in from the broker's own machine only)"}
	case isServer && server.Server && server.Code == amqp091.NotAllowed:
		return &linkError{short: "vhost refused", found: fmt.Sprintf("it does not let user %q into virtual host %q (%s)", a.uri.Username,
			a.uri.Vhost, server.Reason),
			remedy: "create the vhost, grant access to it, or change the vhost in the publish URL"}
	case isServer && server.Server:
		return &linkError{short: "connection refused", found: fmt.Sprintf("it refuses the connection (%d %s)", server.Code, server.Reason),
			remedy: "see the broker's log"}
	case dns:
		return &linkError{short: "unknown host", found: "its host name cannot be resolved", remedy: "check the host in the publish URL"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &linkError{short: "connection refused", absent: true, found: "nothing listens there",
			remedy: "check that it runs, and host and port in the publish URL"}
	case network.TimedOut(err), network.TimedOut(ended):
		return &linkError{short: "no answer", absent: true, found: "it does not answer",
			remedy: "check the network, host and port in the publish URL (AMQP is usually on 5672, with TLS on 5671), and whether it should be " +
				"amqp:// or amqps://"}
	case network.RefusedTLS(err), a.secure && a.socket != nil && len(first) == 0:
		// The alert that says why may be lost when the peer closes over what we have sent already.
		return &linkError{short: "TLS refused", found: "it ended the TLS session at once",
			remedy: "give a client certificate that it trusts and that has not expired, OUTBOX_TLS_CERT and OUTBOX_TLS_KEY, and check that the " +
				"port is RabbitMQ's"}
	case errors.Is(err, amqp091.ErrCredentials):
		return &linkError{short: "login refused", found: fmt.Sprintf("it ended the connection at the login of user %q", a.uri.Username),
			remedy: "check user and password in the publish URL"}
	case errors.Is(err, amqp091.ErrVhost):
		return &linkError{short: "vhost refused", found: fmt.Sprintf("it ended the connection when virtual host %q was opened", a.uri.Vhost),
			remedy: "check the vhost in the publish URL"}
	case network.Ended(err), network.Ended(ended), isServer:
		return &linkError{short: "handshake ended", absent: true, found: "it ended the connection during the handshake", remedy: a.otherScheme()}
	default:
		return a.tls(err)
	}
}

func (a *attempt) external() bool {
	return len(a.mechanisms) == 1 && a.mechanisms[0] == mechanismExternal
}

func (a *attempt) otherScheme() string {
	if a.secure {
		return "check that host and port in the publish URL are those of RabbitMQ's TLS listener, usually 5671, else write amqp://"
	}
	return "check that host and port in the publish URL are those of RabbitMQ's AMQP listener, usually 5672, and write amqps:// if " +
		"it wants TLS"
}

// tls is reason for what is left: certificates, and what nobody has foreseen.
func (a *attempt) tls(err error) *linkError {
	const untrusted = "certificate refused"
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	hostname, isHostname := errors.AsType[x509.HostnameError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	plain, isPlain := errors.AsType[tls.RecordHeaderError](err)
	own, isOwn := errors.AsType[*errTLS](err)
	switch {
	case isOwn:
		return &linkError{short: "TLS settings unusable", found: fmt.Sprintf("the TLS settings cannot be used (%v)", own.err),
			remedy: "correct the file or the setting"}
	case isInvalid && invalid.Reason == x509.Expired:
		return &linkError{short: untrusted, found: fmt.Sprintf("its certificate is valid from %s to %s only", day(invalid.Cert.NotBefore),
			day(invalid.Cert.NotAfter)),
			remedy: "renew it, and compare the clocks"}
	case isHostname:
		return &linkError{short: untrusted, found: fmt.Sprintf("its certificate is for another name than %s", hostname.Host),
			remedy: "use the certificate's name in the publish URL, or give it as OUTBOX_TLS_SERVER_NAME"}
	case authority:
		return &linkError{short: untrusted, found: "its certificate is signed by an unknown authority",
			remedy: "give that one's certificate as OUTBOX_TLS_CA_FILE"}
	case verification:
		return &linkError{short: untrusted, found: fmt.Sprintf("its certificate is not accepted (%v)", err),
			remedy: "check the certificate, OUTBOX_TLS_CA and OUTBOX_TLS_SERVER_NAME"}
	case isPlain && plain.RecordHeader[0] != 'A':
		return stranger(plain.RecordHeader[:])
	case isPlain:
		return &linkError{short: "no TLS", found: "the port does not speak TLS",
			remedy: "write amqp://, or the port of the TLS listener, usually 5671"}
	default:
		return &linkError{short: "no connection", found: fmt.Sprintf("it cannot be reached (%v)", stable(err)),
			remedy: "check that it runs, and the network"}
	}
}

// frameMethod begins the greeting of an AMQP 0-9-1 server.
const frameMethod = 1

// stranger is reason for a server that does not speak AMQP, by its first bytes.
func stranger(first []byte) *linkError {
	e := &linkError{short: "not RabbitMQ", remedy: "check host and port in the publish URL, AMQP is usually on 5672, with TLS on 5671"}
	switch text := string(first); {
	case strings.HasPrefix(text, "HTTP"):
		e.found = "what answers there speaks HTTP, as RabbitMQ's management interface does"
	case strings.HasPrefix(text, "INFO"):
		e.found = "what answers there speaks NATS' protocol"
	case strings.HasPrefix(text, "AMQP"):
		e.found = "what answers there speaks another version of AMQP than 0-9-1"
	case first[0] == 0x15: // a TLS alert
		return &linkError{short: "TLS wanted", found: "the port speaks TLS",
			remedy: "write amqps:// in the publish URL, or the port without TLS, usually 5672"}
	default:
		e.found = "what answers there does not speak AMQP 0-9-1"
	}
	return e
}

// stable returns the part of a network's error that does not change from one attempt to the next.
func stable(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }
