package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// While the table cannot be looked for, the log has each reason once: that a connection was another one is none.
func TestTableThatIsAwayIsToldOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &Relay{config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, setup: errStarting}
	for port := range 100 {
		r.found(nil, &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: 40000 + port}, Addr: &net.TCPAddr{Port: 5432}, Err: errors.New("reset")})
	}
	if told := strings.Count(log.String(), "the outbox cannot be used yet"); told != 1 {
		t.Errorf("told %d times:\n%s", told, log.String())
	}
	r.found(nil, errors.New("another reason"))
	if !strings.Contains(log.String(), "another reason") {
		t.Error("another reason is not told")
	}
}
