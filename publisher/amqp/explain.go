package amqp

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// address returns host:port without anything secret.
func address(uri amqp091.URI) string {
	return net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
}

// unavailable returns the answer if there is no connection.
func unavailable(short, format string, args ...any) error {
	return publisher.UnavailableError(publisher.ScopeDestination, short, format, args...)
}

// An attempt is a try to connect, and its result.
type attempt struct {
	uri        amqp091.URI
	token      bool     // a token takes the place of the password
	mechanisms []string // mechanisms that this client would log in with
	socket     *socket  // nil if there was none
	names      setting.Names
}

// explain turns a failure to connect into an answer that says what to change. It holds no secret, and is the same text
// at each try, so that it is logged once.
func (a *attempt) explain(err error) error {
	f := a.reason(err)
	return unavailable(f.Short, "%w", f)
}

// reason finds the reason in what is certain first: what the peer's first bytes are, then what the broker says, then
// what the network says. At last come guesses from the moment at which the connection ended.
func (a *attempt) reason(err error) *connect.Failure {
	c := &connect.Attempt{
		Broker: "RabbitMQ at", Address: address(a.uri), Servers: a.names.Of("URL"),
		Plain: "amqp://", Secure: "amqps://", Names: a.names,
	}
	_, isServer := errors.AsType[*amqp091.Error](err)
	var first []byte
	var ended error // why the handshake broke off; the library keeps only the text
	if a.socket != nil {
		if first, ended = a.socket.beginning(); len(first) > 0 && first[0] != frameMethod {
			return stranger(c, first)
		}
	}
	// A listener without TLS answers the greeting of TLS with the header of its protocol, AMQP: that is explained
	// below.
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && record.RecordHeader[0] != 'A' {
		return stranger(c, record.RecordHeader[:])
	}
	if known := cmp.Or(a.refused(c, err), c.Network(err)); known != nil {
		return known
	}
	switch {
	// A connection was made, and then nothing came.
	case connect.TimedOut(ended):
		return c.Silent()
	case connect.RefusedTLS(err), a.uri.Scheme == "amqps" && a.socket != nil && len(first) == 0:
		// The alert that gives the reason may be lost if the peer closes the connection while data from this client is
		// unread.
		return c.Refused(nil)
	case connect.Ended(err), connect.Ended(ended), isServer:
		return c.Failed("handshake ended", "it ended the connection during the handshake", // as another port does
			"check host and port in "+c.Servers+", and whether it should be "+c.Plain+" or "+c.Secure, nil)
	}
	return cmp.Or(c.TLS(err), c.Failed("cannot connect", "it cannot be connected to",
		"check that it runs, and the network", connect.Stable(err)))
}

// refused returns the failure of a login that the broker does not accept, or nil for anything else. RabbitMQ uses one
// code for several causes, and only its text tells some of them apart: NOT_ALLOWED (530) stands for a missing virtual
// host, a missing right to it, and each kind of limit. The text is matched for the wording of the advice only, never
// for what becomes of rows. The library has errors of its own for a broker that ends the connection without a word.
func (a *attempt) refused(c *connect.Attempt, err error) *connect.Failure {
	server, ok := errors.AsType[*amqp091.Error](err)
	if !ok {
		return nil
	}
	failed := func(short, found, remedy string) *connect.Failure { return c.FailedLogin(short, found, remedy, nil) }
	notAllowed, limit := server.Server && server.Code == amqp091.NotAllowed, strings.Contains(server.Reason, "limit")
	denied := server.Server && server.Code == amqp091.AccessRefused || errors.Is(err, amqp091.ErrCredentials)
	external := len(a.mechanisms) == 1 && a.mechanisms[0] == mechanismExternal // the certificate alone is the login
	who, grant := fmt.Sprintf("user %q", a.uri.Username), "access to it"
	if a.token {
		who, grant = "the OAuth token", "a scope for it, such as rabbitmq.write:VHOST/*"
	}
	switch {
	case errors.Is(err, amqp091.ErrSASL) && external:
		return failed("no login mechanism", "it does not offer to log in with EXTERNAL",
			"enable its plugin rabbitmq_auth_mechanism_ssl and the mechanism EXTERNAL, and give a client certificate "+
				"that it trusts as "+a.names.Of("TLS.Certificates"))
	case errors.Is(err, amqp091.ErrSASL):
		return failed("no login mechanism", "it does not offer to log in with "+strings.Join(a.mechanisms, " or "),
			"change "+a.names.Of("Mechanism")+" to one of its auth_mechanisms")
	// as NOT_ALLOWED, or as INTERNAL_ERROR of newer brokers
	case server.Server && strings.Contains(server.Reason, "' is down"):
		return c.Failed("vhost down",
			fmt.Sprintf("virtual host %q does not run (%s)", a.uri.Vhost, server.Reason),
			"see the broker's log, and rabbitmqctl restart_vhost", nil)
	case denied && external:
		return failed("login refused", "it finds no user for the client certificate",
			"give one of an authority that it trusts as "+a.names.Of("TLS.Certificates")+
				", and create the user that its setting ssl_cert_login_from takes from it")
	case denied && a.token:
		return failed("login refused", "it refuses the OAuth token",
			"check "+a.names.Of("Tokens")+", that the token has not expired and that its audience is the broker's "+
				"resource_server_id, and at the broker rabbitmq_auth_backend_oauth2 and the key that signs tokens")
	case denied:
		return failed("login refused", "it refuses the login of "+who,
			"check user and password in "+c.Servers+" (the user guest may log in from the broker's own machine only)")
	// of connections or channels, for a user, a vhost or a node
	case notAllowed && limit:
		return c.Failed("limit reached", fmt.Sprintf("it takes no more of %s (%s)", who, server.Reason),
			"raise that limit (rabbitmqctl set_user_limits, set_vhost_limits, or channel_max and connection_max of "+
				"the node), or let fewer clients connect", nil)
	case notAllowed, errors.Is(err, amqp091.ErrVhost):
		return failed("vhost refused",
			fmt.Sprintf("it does not let %s into virtual host %q (%s)", who, a.uri.Vhost, server.Reason),
			"create the vhost, grant "+grant+", or change the vhost in "+c.Servers)
	case server.Server:
		return c.Failed("connection refused",
			fmt.Sprintf("it refuses the connection (%d %s)", server.Code, server.Reason),
			"see the broker's log", nil)
	}
	return nil
}

// frameMethod begins the greeting of an AMQP 0-9-1 server.
const frameMethod = 1

// stranger returns the failure for a server that does not speak AMQP, from its first bytes. Without that, the library
// would report a frame that it cannot read.
func stranger(c *connect.Attempt, first []byte) *connect.Failure {
	const alert = 0x15 // of TLS
	if first[0] == alert {
		return c.Failed("TLS wanted", "the port speaks TLS",
			"write amqps:// in "+c.Servers+", or the port without TLS, usually 5672", nil)
	}
	return c.Failed("not RabbitMQ", fmt.Sprintf("what answers there does not speak AMQP 0-9-1 (it sends %.8q)", first),
		"check host and port in "+c.Servers+": its management interface is on another", nil)
}
