package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// arrivals is what a consumer of the broker has received of numbered rows.
type arrivals struct {
	keyOf func(row int) int

	mu         sync.Mutex
	first      map[int]time.Time // time of the first arrival, by row
	last       map[int]int       // last row that arrived, by key
	duplicates int
	disordered int // first arrivals after a later row of their key
	err        error
}

// consume begins to consume a topic; end stops the consumer.
func consume(ctx context.Context, b broker, topic string, keyOf func(row int) int) (a *arrivals, end func() error) {
	a = &arrivals{keyOf: keyOf, first: map[int]time.Time{}, last: map[int]int{}}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := b.consume(ctx, topic, a.receive)
		a.fail(err)
		done <- err
	}()
	return a, func() error {
		cancel()
		return <-done
	}
}

func (a *arrivals) receive(body []byte) {
	now := time.Now()
	n, err := numberOf(body)
	if err != nil {
		a.fail(err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.first[n]; again {
		a.duplicates++
		return
	}
	a.first[n] = now
	key := a.keyOf(n)
	if n < a.last[key] {
		a.disordered++
	}
	a.last[key] = n
}

func (a *arrivals) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = errors.Join(a.err, err)
}

// at returns the time of a row's first arrival.
func (a *arrivals) at(row int) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first[row]
}

// wrong returns the number of messages that arrived twice or after a later row of their key.
func (a *arrivals) wrong() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.duplicates + a.disordered
}

// await waits until the given number of rows has arrived.
func (a *arrivals) await(ctx context.Context, rows int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := testkit.Until(ctx, 10*time.Millisecond, func() (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.first) >= rows, a.err
	})
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		return fmt.Errorf("%d of %d rows arrived: %w", len(a.first), rows, err)
	}
	return nil
}

// numberOf reads the number of a row from its payload, as PostgreSQL prints it.
func numberOf(body []byte) (int, error) {
	const before = `"n": "`
	at := bytes.Index(body, []byte(before))
	if at < 0 {
		return 0, errors.New("a message has no number")
	}
	text, _, _ := bytes.Cut(body[at+len(before):], []byte(`"`))
	return strconv.Atoi(string(text))
}
