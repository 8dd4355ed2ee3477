package publishertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

// A frame is one request or one response between a wire and a server.
type frame struct {
	Messages []publisher.Message `json:",omitempty"`
	Answers  []wireAnswer        `json:",omitempty"`
}

type wireAnswer struct {
	Class publisher.Class
	Scope publisher.Scope
	Fate  publisher.Fate
	Short string
	Text  string
}

// A server makes a Broker reachable over TCP.
type server struct {
	broker   *Broker
	listener net.Listener
	serving  sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

func serve(t *testing.T, b *Broker) *server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{broker: b, listener: listener, conns: map[net.Conn]bool{}}
	s.serving.Go(s.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.conns = nil
		s.mu.Unlock()
		s.serving.Wait()
	})
	return s
}

func (s *server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.conns == nil {
			_ = c.Close()
		} else {
			s.conns[c] = true
			s.serving.Go(func() { s.answer(c) })
		}
		s.mu.Unlock()
	}
}

func (s *server) answer(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var request, response frame
		if in.Decode(&request) != nil {
			return
		}
		for _, err := range s.broker.take(context.Background(), request.Messages) {
			var a wireAnswer
			if e, ok := errors.AsType[*publisher.Error](err); ok {
				a = wireAnswer{e.Class, e.Scope, e.Fate, e.Short, e.Err.Error()}
			}
			response.Answers = append(response.Answers, a)
		}
		if out.Encode(response) != nil {
			return
		}
	}
}

// A wire is a link over a connection, with one exchange at a time.
type wire struct {
	dial    func(context.Context) (net.Conn, error)
	turn    chan struct{} // holds a token while an exchange is under way
	current net.Conn      // belongs to the holder of the turn
}

func newWire(network *Network, address string) *wire {
	return &wire{turn: make(chan struct{}, 1), dial: func(ctx context.Context) (net.Conn, error) {
		return network.Dial(ctx, "tcp", address)
	}}
}

func (w *wire) exchange(ctx context.Context, messages []publisher.Message) []error {
	answers := make([]error, len(messages))
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return fill(answers, publisher.ErrNotAttempted)
	}
	response, sent, err := w.roundTrip(ctx, frame{Messages: messages})
	switch {
	case err != nil && sent:
		return fill(answers, publisher.AmbiguousError("no answer", "no answer: %w", err))
	case err != nil && ctx.Err() != nil:
		return fill(answers, publisher.ErrNotAttempted)
	case err != nil:
		return fill(answers, publisher.UnavailableError(publisher.ScopeDestination, "no connection",
			"connect: %w", err))
	}
	for i, a := range response.Answers {
		if a.Class != publisher.Accepted {
			answers[i] = &publisher.Error{
				Class: a.Class, Scope: a.Scope, Fate: a.Fate, Short: a.Short,
				Err: errors.New(a.Text),
			}
		}
	}
	return answers
}

func (w *wire) ping(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	_, _, err := w.roundTrip(ctx, frame{})
	return err
}

// roundTrip connects if needed. A connection that has failed once is not used again.
func (w *wire) roundTrip(ctx context.Context, request frame) (response frame, sent bool, err error) {
	if err := w.stillOpen(); err != nil {
		w.drop()
	}
	if w.current == nil {
		if w.current, err = w.dial(ctx); err != nil {
			w.current = nil
			return response, false, err
		}
	}
	c := w.current
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = json.NewEncoder(c).Encode(request)
	if err == nil {
		err = json.NewDecoder(c).Decode(&response)
	}
	if err == nil && len(response.Answers) != len(request.Messages) {
		err = fmt.Errorf("%d answers for %d messages", len(response.Answers), len(request.Messages))
	}
	if !stop() || err != nil {
		w.drop()
	}
	return response, true, err
}

// stillOpen checks whether the peer has closed the connection since the last exchange.
func (w *wire) stillOpen() error {
	if w.current == nil {
		return nil
	}
	_ = w.current.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer func() {
		if w.current != nil {
			_ = w.current.SetReadDeadline(time.Time{})
		}
	}()
	_, err := w.current.Read(make([]byte, 1))
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return nil
	}
	return io.ErrUnexpectedEOF
}

func (w *wire) drop() {
	if w.current != nil {
		_ = w.current.Close()
		w.current = nil
	}
}

func (w *wire) close() error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.drop()
	return nil
}
