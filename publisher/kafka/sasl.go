package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// Mechanism returns the SASL mechanism with the given name: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512. Its errors do not
// show the credentials.
func Mechanism(name, username, password string) (sasl.Mechanism, error) {
	algorithm := scram.SHA256
	switch name {
	case "PLAIN":
		return plain.Mechanism{Username: username, Password: password}, nil
	case "SCRAM-SHA-256":
	case "SCRAM-SHA-512":
		algorithm = scram.SHA512
	default:
		return nil, fmt.Errorf("unknown SASL mechanism %q: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", name)
	}
	mechanism, err := scram.Mechanism(algorithm, username, password)
	if err != nil {
		return nil, errors.New("the SASL user name or password has characters that SCRAM does not allow")
	}
	return mechanism, nil
}

// authenticate runs the SASL exchange on a new connection. It returns how long the broker lets the session live
// (KIP-368), 0 meaning for ever. A broker closes older connections at their next request, so they are replaced before
// that. kafka-go has no re-authentication on a live connection (KIP-368), which would save that.
func authenticate(ctx context.Context, pc *protocol.Conn, address string, mechanism sasl.Mechanism) (
	life time.Duration, err error,
) {
	m, err := pc.RoundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return 0, fmt.Errorf("SASL handshake: %w", err)
	}
	shake := m.(*saslhandshake.Response)
	switch code := kafkago.Error(shake.ErrorCode); code {
	case 0:
	case kafkago.UnsupportedSASLMechanism:
		offered := strings.Join(shake.Mechanisms, ", ")
		return 0, fmt.Errorf("it offers %.200s but not %s: %w", offered, mechanism.Name(), code)
	default:
		return 0, code
	}
	host, _, _ := net.SplitHostPort(address)
	ctx = sasl.WithMetadata(ctx, &sasl.Metadata{Host: host})
	session, state, err := mechanism.Start(ctx)
	if err != nil {
		return 0, credentialsError{err}
	}
	own, _ := session.(*tokenSession)
	defer func() {
		if own != nil && errors.Is(err, kafkago.SASLAuthenticationFailed) {
			own.report()
		}
	}()
	for {
		m, err := pc.RoundTrip(&saslauthenticate.Request{AuthBytes: state})
		if connect.Ended(err) {
			// Some brokers answer wrong credentials by closing the connection.
			return 0, fmt.Errorf("the broker closed the connection: %w", kafkago.SASLAuthenticationFailed)
		}
		if err != nil {
			return 0, err
		}
		answer := m.(*saslauthenticate.Response)
		switch code := kafkago.Error(answer.ErrorCode); {
		case code == 0:
		case answer.ErrorMessage != "":
			return 0, fmt.Errorf("%w: %.200s", code, answer.ErrorMessage)
		default:
			return 0, code
		}
		var done bool
		if done, state, err = session.Next(ctx, answer.AuthBytes); err != nil {
			return 0, fmt.Errorf("%w: %w", kafkago.SASLAuthenticationFailed, err)
		} else if done {
			return time.Duration(answer.SessionLifetimeMs) * time.Millisecond, nil
		}
	}
}
