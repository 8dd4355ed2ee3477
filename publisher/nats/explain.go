package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/internal/network"
)

// A trouble is why a server cannot be used, and what to change. It is one line, without secrets.
type trouble struct {
	short  string // as in publisher.Error
	login  bool   // it is about who we are
	absent bool   // nobody answers
	found  string // what was found, naming the server
	err    error
	remedy string // may be empty
}

func (t *trouble) Error() string {
	text := t.what()
	if t.remedy != "" {
		text += ": " + t.remedy
	}
	return text
}

// what is found and cause, without the remedy.
func (t *trouble) what() string { return t.found + ": " + t.err.Error() }

func (t *trouble) Unwrap() error { return t.err }

// answer returns the trouble as the answer for messages.
func (t *trouble) answer() error {
	return &publisher.Error{Class: publisher.Unavailable, Scope: publisher.ScopeDestination, Short: t.short, Err: t}
}

// A localError is one of our own credentials or certificates, not of the server.
type localError struct {
	err         error
	certificate bool
}

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// An attempt is what is known of a try to connect that has failed.
type attempt struct {
	server   server
	dialled  bool   // there was a connection
	heard    bool   // and the server sent something over it
	tls      bool   // TLS is configured
	tlsFirst bool   // before the greeting
	jwt      string // of our credentials file, if there is one
}

// errNoWebSocket is that the answer to a request for a WebSocket is none.
var errNoWebSocket = errors.New("its answer does not open a WebSocket")

// explain returns what is wrong, by what nats.go or the network said.
func (a attempt) explain(err error) *trouble {
	t := func(short, found, remedy string) *trouble {
		return &trouble{short: short, found: fmt.Sprintf(found, a.server.address), err: stable(err), remedy: remedy}
	}
	login := func(found, remedy string) *trouble {
		refused := t("login refused", found, remedy)
		refused.login = true
		return refused
	}
	absent := func(short, found, remedy string) *trouble {
		nobody := t(short, found, remedy)
		nobody.absent = true
		return nobody
	}
	if local, ok := errors.AsType[*localError](err); ok && local.certificate {
		return t("certificates unusable", "cannot begin TLS with NATS server %s",
			"correct OUTBOX_TLS_CA, OUTBOX_TLS_CERT and OUTBOX_TLS_KEY, or their files")
	} else if ok {
		unusable := t("credentials unusable", "cannot log in to NATS server %s", "correct the credentials, or their file")
		unusable.login = true
		return unusable
	}
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	_, name := errors.AsType[*net.DNSError](err)
	inbox, denied := errors.AsType[*inboxDenied](err)
	timeout := is(context.DeadlineExceeded, os.ErrDeadlineExceeded, nats.ErrTimeout)
	switch {
	// That they have expired the server tells only those who are logged in.
	case is(nats.ErrAuthExpired, nats.ErrAccountAuthExpired), is(nats.ErrAuthorization) && expired(a.jwt, time.Now()):
		return login("NATS server %s refuses the login", "the credentials have expired: renew the .creds file in OUTBOX_NATS_CREDS_FILE")
	case is(nats.ErrAuthRevoked):
		return login("NATS server %s refuses the login", "the credentials were revoked: put new ones into OUTBOX_NATS_CREDS_FILE")
	case is(nats.ErrAuthorization):
		return login("NATS server %s refuses the login",
			"correct user and password or token in OUTBOX_PUBLISH_URL, or OUTBOX_NATS_CREDS, _NKEY or _TOKEN, whichever the server knows")
	case is(nats.ErrNkeysNotSupported):
		return login("NATS server %s asks for no nkey or credentials", "log in with user and password or token, as the server is configured")
	case denied:
		return t("inbox denied", "NATS server %s", "grant the user subscribe on "+inbox.inboxes+">: acknowledgements arrive there; "+
			"or set OUTBOX_NATS_INBOX_PREFIX to what the user may subscribe to")
	case is(nats.ErrSecureConnWanted):
		return t("no TLS", "NATS server %s offers no TLS", "turn it on there, or write nats:// instead of nats+tls://")
	case is(nats.ErrTLS) || network.RefusedTLS(err):
		return a.explainTLS(t, err)
	case is(nats.ErrNoInfoReceived):
		return t("no NATS server", "what answers at %s is no NATS server", "correct host and port in OUTBOX_PUBLISH_URL")
	case is(nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded):
		return t("too many connections", "NATS server %s takes no more connections", "raise max_connections there, or the account's limit")
	case name:
		return t("unknown host", "cannot find NATS server %s", "correct the host in OUTBOX_PUBLISH_URL, or the name service")
	case a.dialled && !a.heard && a.tlsFirst && timeout:
		return t("no NATS server", "what listens at %s does not speak TLS", "correct host and port in OUTBOX_PUBLISH_URL")
	case a.dialled && !a.heard:
		return t("no NATS server", "what listens at %s sends no greeting of a NATS server",
			"correct the port in OUTBOX_PUBLISH_URL; if the server has handshake_first, write nats+tls:// and OUTBOX_NATS_TLS_FIRST=true; "+
				"if it is its WebSocket port, ws:// or wss://")
	case a.server.webSocket && a.heard && !timeout && !network.Ended(err):
		// What the library says of an answer that is none of a WebSocket quotes it.
		stranger := t("no NATS server", "what answers at %s is no WebSocket listener of a NATS server",
			"correct host, port and path in OUTBOX_PUBLISH_URL; if it is the server's usual port, write nats:// or nats+tls://")
		stranger.err = errNoWebSocket
		return stranger
	case timeout:
		return absent("no answer", "NATS server %s does not answer",
			"check host and port in OUTBOX_PUBLISH_URL, the server, firewalls and network policies")
	default:
		return absent("cannot connect", "cannot connect to NATS server %s", "start the server, or correct host and port in OUTBOX_PUBLISH_URL")
	}
}

// stable returns the error as it is at each try: a network's read error names a port of our own, which is
// another one each time, and a wait ends by one of two clocks.
func stable(err error) error {
	if operation, ok := errors.AsType[*net.OpError](err); ok && errors.Is(operation.Err, os.ErrDeadlineExceeded) {
		return context.DeadlineExceeded
	} else if ok && operation.Op == "read" {
		return operation.Err
	}
	return err
}

// explainTLS tells failed handshakes apart.
func (a attempt) explainTLS(t func(short, found, remedy string) *trouble, err error) *trouble {
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	record, isRecord := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isInvalid && invalid.Reason == x509.Expired:
		expired := t("certificate expired", "the certificate of NATS server %s is out of its time",
			"renew the server's certificate, or correct the clock")
		// The library's text holds the time of day, so it would be another one at each try.
		expired.err = fmt.Errorf("it has expired or is not yet valid: from %s to %s", invalid.Cert.NotBefore.UTC().Format(time.RFC3339),
			invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
		return expired
	case authority && !a.tls:
		return t("certificate untrusted", "NATS server %s wants TLS, and the system does not know who signed its certificate",
			"write nats+tls:// and give its authority in OUTBOX_TLS_CA_FILE")
	case authority:
		return t("certificate untrusted", "the certificate of NATS server %s is signed by an authority that is not trusted",
			"put the certificate of its authority into OUTBOX_TLS_CA_FILE")
	case name:
		return t("certificate for another name", "the certificate of NATS server %s is for another name",
			"write that name into OUTBOX_PUBLISH_URL or OUTBOX_TLS_SERVER_NAME")
	case isRecord && a.server.webSocket:
		return t("no TLS", "what listens at %s does not speak TLS",
			"correct host and port in OUTBOX_PUBLISH_URL, or write ws:// or nats+tls://, whichever it speaks")
	case isRecord && string(record.RecordHeader[:]) == "INFO ":
		return t("TLS after the greeting", "NATS server %s greets before TLS begins", "remove OUTBOX_NATS_TLS_FIRST")
	case isRecord:
		return t("no TLS", "what listens at %s does not speak TLS",
			"correct host and port in OUTBOX_PUBLISH_URL, or write nats:// if it is a NATS server without TLS")
	case network.RefusedTLS(err):
		return t("TLS refused", "NATS server %s refuses our side of TLS",
			"give a client certificate that it trusts in OUTBOX_TLS_CERT_FILE and OUTBOX_TLS_KEY_FILE")
	default:
		// Among others the end of the connection behind the handshake, which may be seen before its alert.
		return t("TLS refused", "the TLS handshake with NATS server %s failed",
			"check the port, and whether the server wants a client certificate (OUTBOX_TLS_CERT_FILE, OUTBOX_TLS_KEY_FILE)")
	}
}

// connectionLost is the answer for messages that were not sent because the connection had ended.
func connectionLost(s server, err error) error {
	if err == nil {
		err = nats.ErrConnectionClosed
	}
	return publisher.UnavailableError(publisher.ScopeDestination, "connection lost",
		"the connection to NATS server %s has ended: %w", s.address, err)
}
