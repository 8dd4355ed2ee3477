package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// errNotKafka reports that something other than Kafka answers at the broker's address.
var errNotKafka = errors.New("the first answer is none of Kafka's")

// maxFirstAnswer bounds the first answer, which lists the versions of several dozen requests.
const maxFirstAnswer = 1 << 20

// A firstAnswer is a connection that checks the size of the first answer before kafka-go reads it. Without the check,
// kafka-go takes the text of another protocol for an array of hundreds of millions of elements, and decodes it for
// minutes without regard to any deadline.
type firstAnswer struct {
	net.Conn
	checked bool
}

func (c *firstAnswer) Read(b []byte) (int, error) {
	if c.checked || len(b) < 4 { // kafka-go reads through a buffer, which is larger
		return c.Conn.Read(b)
	}
	n, err := io.ReadAtLeast(c.Conn, b, 4)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return 0, fmt.Errorf("%w: %w", errNotKafka, err)
	case err != nil:
		return n, err
	case binary.BigEndian.Uint32(b) > maxFirstAnswer:
		return 0, errNotKafka
	}
	c.checked = true
	return n, nil
}
