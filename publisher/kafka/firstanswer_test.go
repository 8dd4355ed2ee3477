package kafka

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// Servers of other protocols are recognised by their first bytes, at once.
func TestSomethingElseAnswers(t *testing.T) {
	t.Parallel()
	for name, greeting := range map[string]string{
		"NATS":     "INFO {\"server_id\":\"x\",\"version\":\"2.15.2\"}\r\n",
		"RabbitMQ": "AMQP\x00\x00\x09\x01",
		"HTTP":     "HTTP/1.1 400 Bad Request\r\n\r\n",
		"TLS":      "\x15\x03\x01\x00\x02\x02\x16",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					defer func() { _ = c.Close() }() // ends when the listener is closed
					_, _ = c.Write([]byte(greeting))
				}
			}()
			p := New(Config{Brokers: []string{listener.Addr().String()}})
			t.Cleanup(func() { _ = p.Close() })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := p.Ping(ctx); !errors.Is(err, errNotKafka) {
				t.Errorf("got %v", err)
			}
		})
	}
}
