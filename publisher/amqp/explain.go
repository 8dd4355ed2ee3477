package amqp

import (
	"cmp"
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
	uri       amqp091.URI
	token     bool    // a token takes the place of the password
	mechanism string  // mechanism that this client would log in with
	socket    *socket // nil if there was none
	names     setting.Names
}

// explain turns a failure to connect into an answer that says what to change. It holds no secret, and is the same text
// at each try, so that it is logged once.
func (a *attempt) explain(err error) error {
	f := a.failure(err)
	return unavailable(f.Short, "%w", f)
}

// failure finds what is certain first: what the broker says, then what the network and TLS say. At last come guesses
// from the moment at which the connection ended.
func (a *attempt) failure(err error) *connect.Failure {
	c := &connect.Attempt{
		Broker: "RabbitMQ at", Address: address(a.uri), Servers: a.names.Of("URL"),
		Plain: "amqp://", Secure: "amqps://", Names: a.names,
	}
	switch known := cmp.Or(a.refused(c, err), c.Network(err), c.TLS(err)); {
	case known != nil:
		return known
	case a.socket == nil && !connect.Ended(err):
		return c.Failed("cannot connect", "it cannot be connected to", "check that it runs, and the network",
			connect.Stable(err))
	// A connection was made, and then nothing came.
	case a.socket != nil && connect.TimedOut(a.socket.reason()):
		return c.Silent()
	// The alert that gives the reason may be lost if the peer closes the connection while data from this client is
	// unread.
	case a.uri.Scheme == "amqps":
		return c.Refused(nil)
	default: // as another port does
		return c.Failed("handshake ended", "it ended the connection during the handshake, or does not speak "+
			"AMQP 0-9-1", "check host and port in "+c.Servers+" (its management interface is on another), and whether "+
			"it should be "+c.Plain+" or "+c.Secure, nil)
	}
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
	who, remedy := fmt.Sprintf("user %q", a.uri.Username), "check user and password in "+c.Servers+
		" (the user guest may log in from the broker's own machine only)"
	switch {
	case a.token:
		who, remedy = "the OAuth token", "check "+a.names.Of("Tokens")+", that the token has not expired, that its "+
			"audience is the broker's resource_server_id and that it has a scope such as rabbitmq.write:VHOST/*, and "+
			"at the broker rabbitmq_auth_backend_oauth2 and the key that signs tokens"
	case a.mechanism == mechanismExternal: // the certificate alone is the login
		who, remedy = "the client certificate", "give one of an authority that it trusts as "+
			a.names.Of("TLS.Certificates")+", and create the user that its setting ssl_cert_login_from takes from it"
	}
	switch limit := strings.Contains(server.Reason, "limit"); {
	case errors.Is(err, amqp091.ErrSASL):
		return c.FailedLogin("no login mechanism", "it does not offer to log in with "+a.mechanism,
			"change "+a.names.Of("Mechanism")+" to one of its auth_mechanisms; for EXTERNAL, enable its plugin "+
				"rabbitmq_auth_mechanism_ssl, and give a client certificate that it trusts as "+
				a.names.Of("TLS.Certificates"), nil)
	case server.Server && server.Code == amqp091.AccessRefused, errors.Is(err, amqp091.ErrCredentials):
		return c.FailedLogin("login refused", "it refuses the login of "+who, remedy, nil)
	// of connections or channels, for a user, a vhost or a node
	case server.Server && server.Code == amqp091.NotAllowed && limit:
		return c.Failed("limit reached", fmt.Sprintf("it takes no more of %s (%s)", who, server.Reason),
			"raise that limit (rabbitmqctl set_user_limits, set_vhost_limits, or channel_max and connection_max of "+
				"the node), or let fewer clients connect", nil)
	case server.Server && server.Code == amqp091.NotAllowed, errors.Is(err, amqp091.ErrVhost):
		return c.FailedLogin("vhost refused",
			fmt.Sprintf("it does not let %s into virtual host %q (%s)", who, a.uri.Vhost, server.Reason),
			"create the vhost, start it (rabbitmqctl restart_vhost), grant access to it, for a token with a scope, or "+
				"change it in "+c.Servers, nil)
	case server.Server:
		return c.Failed("connection refused",
			fmt.Sprintf("it refuses the connection (%d %s)", server.Code, server.Reason), "see the broker's log", nil)
	}
	return nil
}
