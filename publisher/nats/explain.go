package nats

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// answer returns a failure as the answer for messages.
func answer(f *connect.Failure) error {
	return &publisher.Error{Class: publisher.Unavailable, Scope: publisher.ScopeDestination, Short: f.Short, Err: f}
}

// A credentialsError is an error in this client's own credentials. The server has no part in it.
type credentialsError struct{ error }

// An attempt holds what is known of a failed try to connect.
type attempt struct {
	server  server
	inboxes string // prefix of reply subjects
	dialled bool   // the network connection was made
	heard   bool   // the server sent something over it
	tls     bool   // TLS is configured
	names   setting.Names
}

// explain turns an error of nats.go or the network into a failure that says what is wrong.
//
// The order of the cases matters. What the server itself has said comes first, then what TLS reports, and at last what
// only the silence shows: whether anything was dialled, and whether anything came.
func (a attempt) explain(err error) *connect.Failure {
	c := &connect.Attempt{
		Broker: "NATS server", Address: a.server.address, Servers: a.names.Of("Servers"), Plain: "nats://",
		Secure: "nats+tls://", Names: a.names,
	}
	cause := connect.Stable(err)
	if _, own := errors.AsType[*credentialsError](err); own {
		return c.FailedLogin("credentials unusable", "the credentials cannot be used",
			"correct the credentials, or their file", cause)
	}
	for _, refused := range []error{
		nats.ErrAuthExpired, nats.ErrAccountAuthExpired, nats.ErrAuthRevoked, nats.ErrAuthorization,
		nats.ErrNkeysNotSupported,
	} {
		if errors.Is(err, refused) {
			return c.FailedLogin("login refused", "it refuses the login", "correct user and password, token, nkey or "+
				".creds file, whichever the server knows, also if the credentials have expired or were revoked (the "+
				"present login is that in "+a.names.Of("Auth")+")", cause)
		}
	}
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	record, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, errInboxDenied):
		return c.Failed("inbox denied", "acknowledgements cannot arrive", "grant the user subscribe on "+a.inboxes+
			">, or set "+a.names.Of("InboxPrefix")+" to what the user may subscribe to", cause)
	case errors.Is(err, nats.ErrSecureConnWanted):
		return c.Failed("no TLS", "it offers no TLS", "turn TLS on there, or write nats:// and not nats+tls://", cause)
	// A server may want TLS although none is configured: nats.go then begins it, with the authorities of the system.
	case authority && !a.tls:
		return c.Failed("TLS wanted", "it wants TLS, and the system does not know who signed its certificate",
			"write nats+tls:// and give the authority's certificate as "+a.names.Of("TLS.RootCAs"), err)
	case isRecord && string(record.RecordHeader[:]) == "INFO ":
		return c.Failed("TLS after the greeting", "it greets before TLS begins", "remove "+a.names.Of("TLSFirst"), err)
	// This includes the end of the connection after the handshake, which may be seen before its alert.
	case errors.Is(err, nats.ErrTLS) || connect.RefusedTLS(err):
		return cmp.Or(c.TLS(err), c.Refused(err))
	case errors.Is(err, nats.ErrMaxConnectionsExceeded), errors.Is(err, nats.ErrMaxAccountConnectionsExceeded):
		return c.Failed("too many connections", "it takes no more connections",
			"raise max_connections there, or the account's limit", cause)
	case a.dialled && !a.heard, errors.Is(err, nats.ErrNoInfoReceived):
		return c.Failed("no NATS server", "what listens there sends no greeting of a NATS server",
			"correct host and port in "+c.Servers+", unless the server is frozen; if it has handshake_first, write "+
				"nats+tls:// and set "+a.names.Of("TLSFirst")+" to true", cause)
	}
	return cmp.Or(c.Network(err), c.TLS(err), c.Failed("cannot connect", "it cannot be connected to",
		"start the server, or correct host and port in "+c.Servers, cause))
}
