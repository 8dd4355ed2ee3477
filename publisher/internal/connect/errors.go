package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// TimedOut reports whether a time limit has passed without an answer.
func TimedOut(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && network.Timeout()
}

// Ended reports whether the other side has ended the connection, in an orderly way or not. It proves nothing about what
// was sent before: a peer may have read and handled it.
func Ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// RefusedTLS reports whether the other side has ended a TLS session with an alert. In TLS 1.3, the alert for a missing
// or untrusted client certificate comes after the handshake.
func RefusedTLS(err error) bool {
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return true
	}
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && operation.Op == "remote error" // the way crypto/tls wraps alerts
}
