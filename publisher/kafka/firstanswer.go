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
	size    []byte // bytes read ahead and not yet passed on
}

func (c *firstAnswer) Read(b []byte) (int, error) {
	if !c.checked {
		size := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, size); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return 0, fmt.Errorf("%w: %w", errNotKafka, err)
			}
			return 0, err
		}
		if binary.BigEndian.Uint32(size) > maxFirstAnswer {
			return 0, errNotKafka
		}
		c.checked, c.size = true, size
	}
	if len(c.size) > 0 {
		n := copy(b, c.size)
		c.size = c.size[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
