package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

const (
	// dialTimeout bounds everything that makes a connection usable: dialling, TLS, SASL. They take five to eight round
	// trips, and a packet that is lost on the way costs another second.
	dialTimeout = 3 * time.Second
	// idleTimeout is how long an unused connection is trusted. Brokers, and devices on the way to them, close silent
	// connections after some minutes, and a request on a dead connection has an unknown outcome.
	idleTimeout = 30 * time.Second
)

// A conn is one connection to a broker, with one request on it at a time. A broker handles the requests of a connection
// one after the other, so that a second one would wait for the replicas of the first. Whoever has taken it from the
// broker's idle ones uses it alone, without a lock.
type conn struct {
	net      net.Conn
	protocol *protocol.Conn
	versions map[protocol.ApiKey]int16 // versions of the requests that the broker understands
	used     time.Time                 // time of the last answer
	reused   bool                      // an answer has come on this connection
	expires  time.Time                 // time at which the broker ends the session; zero if never
	socket   net.Conn                  // connection below TLS
}

// connect dials the address and makes the connection ready for requests. The error says what failed and never shows
// credentials. It belongs to no call: it runs in a goroutine of its own, which ends with Close.
func (p *Publisher) connect(ctx context.Context, address string) (_ *conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer func() {
		if value := recover(); value != nil { // the library decodes what a broker has sent
			err = p.explain(address, panics.Caught(value))
		}
	}()
	dialled, err := p.config.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, p.explain(address, err)
	}
	c := &conn{net: dialled, socket: dialled}
	stop := context.AfterFunc(ctx, c.abort)
	err = c.prepare(ctx, p, address)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.close()
		return nil, p.explain(address, err)
	}
	return c, nil
}

// prepare performs the handshakes: TLS, the versions that both sides speak, SASL. The broker ends a session at its next
// request after its lifetime (KIP-368), so the connection is used for eight tenths of it: the clocks may differ, and a
// request may be under way.
func (c *conn) prepare(ctx context.Context, p *Publisher, address string) error {
	if p.config.TLS != nil {
		host, _, _ := net.SplitHostPort(address) // each broker has a certificate for its own host
		config, err := connect.TLS(p.config.TLS, host)
		if err != nil {
			return err
		}
		secure := tls.Client(c.socket, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS handshake: %w", err)
		}
		c.net = secure
	}
	c.protocol = protocol.NewConn(c.net, p.config.ClientID)
	response, err := c.askVersions(p.config.ClientID)
	if err != nil {
		return fmt.Errorf("ask for API versions: %w", err)
	}
	c.versions = make(map[protocol.ApiKey]int16, len(response.ApiKeys))
	for _, k := range response.ApiKeys {
		key := protocol.ApiKey(k.ApiKey)
		c.versions[key] = key.SelectVersion(k.MinVersion, k.MaxVersion)
	}
	c.protocol.SetVersions(c.versions)
	if p.config.SASL == nil {
		return nil
	}
	mechanism, err := p.config.SASL()
	if err != nil {
		return credentialsError{err}
	}
	lifetime, err := authenticate(ctx, c.protocol, address, mechanism)
	if err != nil {
		return err
	}
	if lifetime > 0 {
		c.expires = time.Now().Add(lifetime * 8 / 10)
	}
	return nil
}

// errNotKafka reports that something other than Kafka answers at the broker's address.
var errNotKafka = errors.New("the first answer is none of Kafka's")

// maxVersions bounds the first answer, which lists the versions of several dozen requests.
const maxVersions = 1 << 20

// askVersions sends the first request. It checks the size of the answer before kafka-go reads it: kafka-go would take
// the text of another protocol for an array of hundreds of millions of elements, and decode it for minutes without
// regard to any deadline.
//
// It asks in version 0, which every broker answers. Kafka 4.3.1 and kafka-go then agree on Produce 8, Metadata 8 and
// InitProducerId 4.
func (c *conn) askVersions(clientID string) (*apiversions.Response, error) {
	if err := protocol.WriteRequest(c.net, 0, 0, clientID, &apiversions.Request{}); err != nil {
		return nil, err
	}
	var size [4]byte
	_, err := io.ReadFull(c.net, size[:])
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: %w", errNotKafka, err)
	case err != nil:
		return nil, err
	case binary.BigEndian.Uint32(size[:]) > maxVersions:
		return nil, errNotKafka
	}
	answer := io.MultiReader(bytes.NewReader(size[:]), c.net)
	_, m, err := protocol.ReadResponse(answer, protocol.ApiVersions, 0)
	if err != nil {
		return nil, err
	}
	response := m.(*apiversions.Response)
	if response.ErrorCode != 0 {
		return nil, kafkago.Error(response.ErrorCode)
	}
	return response, nil
}

// roundTrip sends a request and waits for its response, until the limit or the end of ctx. A connection whose round
// trip has failed, or was interrupted, must not be used again.
func (c *conn) roundTrip(ctx context.Context, m protocol.Message, limit time.Duration) (
	response protocol.Message, err error,
) {
	_ = c.net.SetDeadline(time.Now().Add(limit)) // the round trip shows an error
	stop := context.AfterFunc(ctx, c.abort)
	defer func() {
		if value := recover(); value != nil { // the library decodes what a broker has sent
			err = panics.Caught(value)
		}
		if !stop() {
			c.expires = time.Now() // the deadline may change at any moment
		}
	}()
	return c.protocol.RoundTrip(m)
}

// close ends the connection without a TLS alert: the write of the alert would wait for a broker that reads nothing.
func (c *conn) close() { _ = c.socket.Close() }

// abort ends the reads and writes that are under way. They return a timeout, by which a request that was given up is
// told from a connection that has ended.
func (c *conn) abort() { _ = c.socket.SetDeadline(time.Unix(1, 0)) }

// stale reports whether the connection should be replaced before it is used. A connection on which nobody has asked
// anything since it was made counts as used then.
func (c *conn) stale(now time.Time) bool {
	return now.Sub(c.used) > idleTimeout || !c.expires.IsZero() && !now.Before(c.expires)
}

// least is the minimum time that must be left to begin anything. A request begun with less would fail for lack of time,
// and the failure would be attributed to the broker.
const least = 100 * time.Millisecond

// over reports whether ctx has ended or is about to end. Whatever was to begin is left to the caller's next call.
func over(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && time.Until(deadline) < least
}

// within returns the timeout, or half of the time that ctx leaves if that is shorter: a step that hangs must end early
// enough for its caller to report it.
func within(ctx context.Context, timeout time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(timeout, time.Until(deadline)/2)
	}
	return timeout
}
