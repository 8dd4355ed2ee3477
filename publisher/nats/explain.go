package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

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
	server   server
	inboxes  string // prefix of reply subjects
	dialled  bool   // the network connection was made
	heard    bool   // the server sent something over it
	tls      bool   // TLS is configured
	tlsFirst bool   // TLS begins before the greeting
	names    setting.Names
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
	failed := func(short, found, remedy string) *connect.Failure { return c.Failed(short, found, remedy, cause) }
	refused := func(remedy string) *connect.Failure {
		return c.FailedLogin("login refused", "it refuses the login", remedy, cause)
	}
	if _, own := errors.AsType[*credentialsError](err); own {
		return c.FailedLogin("credentials unusable", "the credentials cannot be used",
			"correct the credentials, or their file", cause)
	}
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	record, isRecord := errors.AsType[tls.RecordHeaderError](err)
	timeout := is(context.DeadlineExceeded, os.ErrDeadlineExceeded, nats.ErrTimeout)
	switch {
	case is(nats.ErrAuthExpired, nats.ErrAccountAuthExpired):
		return refused("the credentials have expired: renew the .creds file in " + a.names.Of("Auth.Credentials"))
	case is(nats.ErrAuthRevoked):
		return refused("the credentials were revoked: put new ones into " + a.names.Of("Auth.Credentials"))
	// The server reports expired credentials only to users who are logged in.
	case is(nats.ErrAuthorization):
		return refused("correct user and password, token or other credentials in " + a.names.Of("Auth") +
			", whichever the server knows; a .creds file is also refused if the credentials have expired")
	case is(nats.ErrNkeysNotSupported):
		return c.FailedLogin("login refused", "it asks for no nkey or credentials",
			"log in with user and password or token, as the server is configured", cause)
	case is(errInboxDenied):
		return failed("inbox denied", "acknowledgements cannot arrive", "grant the user subscribe on "+a.inboxes+
			">, or set "+a.names.Of("InboxPrefix")+" to what the user may subscribe to")
	case is(nats.ErrSecureConnWanted):
		return failed("no TLS", "it offers no TLS", "turn TLS on there, or write nats:// instead of nats+tls://")
	// A server may want TLS although none is configured: nats.go then begins it, with the authorities of the system.
	case authority && !a.tls:
		return c.Failed("TLS wanted", "it wants TLS, and the system does not know who signed its certificate",
			"write nats+tls:// and give the authority's certificate as "+a.names.Of("TLS.RootCAs"), err)
	case isRecord && string(record.RecordHeader[:]) == "INFO ":
		return c.Failed("TLS after the greeting", "it greets before TLS begins", "remove "+a.names.Of("TLSFirst"), err)
	// This includes the end of the connection after the handshake, which may be seen before its alert.
	case is(nats.ErrTLS) || connect.RefusedTLS(err):
		return cmp.Or(c.TLS(err), c.Refused(err))
	case is(nats.ErrNoInfoReceived):
		return failed("no NATS server", "what answers there is not a NATS server",
			"correct host and port in "+c.Servers)
	case is(nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded):
		return failed("too many connections", "it takes no more connections",
			"raise max_connections there, or the account's limit")
	case a.dialled && !a.heard && a.tlsFirst && timeout:
		return failed("no NATS server", "what listens there does not speak TLS", "correct host and port in "+c.Servers)
	case a.dialled && !a.heard:
		return failed("no NATS server", "what listens there sends no greeting of a NATS server",
			"correct the port in "+c.Servers+"; if the server has handshake_first, write nats+tls:// and set "+
				a.names.Of("TLSFirst")+" to true")
	case timeout:
		return c.Silent()
	}
	return cmp.Or(c.Network(err), c.TLS(err), c.Failed("cannot connect", "it cannot be connected to",
		"start the server, or correct host and port in "+c.Servers, cause))
}
