package nats

import (
	"context"
	"errors"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// An authError is one of our own credentials, not of the server.
type authError struct{ err error }

func (e *authError) Error() string { return e.err.Error() }
func (e *authError) Unwrap() error { return e.err }

// A certificateError is one of our own certificates or authorities.
type certificateError struct{ err error }

func (e *certificateError) Error() string { return e.err.Error() }
func (e *certificateError) Unwrap() error { return e.err }

// explain returns the answer while a server cannot be used, with the remedy.
func explain(s server, err error) error {
	unavailable := func(short, format string) error {
		return publisher.UnavailableError(publisher.ScopeDestination, short, format, s.address, err)
	}
	if _, ok := errors.AsType[*authError](err); ok {
		return unavailable("credentials unusable", "cannot log in to NATS server %s: %w")
	}
	if _, ok := errors.AsType[*certificateError](err); ok {
		return unavailable("certificates unusable", "cannot begin TLS with NATS server %s: %w")
	}
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case is(nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired):
		return unavailable("login refused", "NATS server %s refuses the login: %w: check user and password, token, nkey or credentials")
	case is(nats.ErrNkeysNotSupported):
		return unavailable("login refused", "NATS server %s asks for no nkey or credentials: %w: check how it authenticates")
	case is(errInboxDenied):
		return unavailable("inbox denied", "NATS server %s: %w")
	case is(nats.ErrSecureConnWanted):
		return unavailable("no TLS", "NATS server %s offers no TLS: %w: turn it on there, or connect without")
	case is(nats.ErrTLS):
		return unavailable("TLS failed", "the TLS handshake with NATS server %s failed: %w: check CA, certificate, server name and whether the server speaks TLS first")
	case is(nats.ErrNoInfoReceived):
		return unavailable("no NATS server", "what answers at %s is not a NATS server: %w: check host and port")
	case is(nats.ErrMaxConnectionsExceeded, nats.ErrMaxAccountConnectionsExceeded):
		return unavailable("too many connections", "NATS server %s takes no more connections: %w")
	case is(context.DeadlineExceeded, os.ErrDeadlineExceeded):
		return unavailable("no answer", "NATS server %s does not answer: %w: check host and port, and whether the server speaks TLS first")
	default:
		return unavailable("cannot connect", "cannot connect to NATS server %s: %w")
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
