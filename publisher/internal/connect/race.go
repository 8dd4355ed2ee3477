package connect

import (
	"context"
	"slices"
	"time"
)

// Stagger is how long an address may take to accept the connection before the next one is tried as well. Waiting for
// one address after the other took 15 seconds with three that did not answer.
const Stagger = 250 * time.Millisecond

// A Race tries several addresses until one of them accepts the connection. Each address is tried when the previous one
// has failed, or has not answered for [Stagger]. While one is still being waited for, those that have failed are tried
// again, since they may come back first. The race is lost when each address has failed. A Race is used once, by one
// goroutine; only Open runs in others.
type Race[C any] struct {
	// Turns are the numbers of the addresses to try, in order. A number may occur more than once.
	Turns []int
	// Open connects to an address. It must return soon after ctx has ended: the race waits for it.
	Open func(ctx context.Context, address int) (C, error)
	// Drop closes a connection that was made after the race was won.
	Drop func(C)
	// Ended is called for each try that has ended.
	Ended func(address int, err error)
}

// A result is the outcome of one try.
type result[C any] struct {
	address int
	conn    C
	err     error
}

// Run returns the first connection. It returns false if there is none; Ended was then called for each address. If ctx
// ends, the race ends with the next try that ends. The others are then cut off, and connections that they have made are
// dropped.
func (r *Race[C]) Run(ctx context.Context) (conn C, won bool) {
	ctx, cancel := context.WithCancel(ctx)
	ends := make(chan result[C])
	under, failed := map[int]bool{}, map[int]bool{} // no address is tried twice at the same time
	defer func() {
		cancel()
		for range under {
			if late := <-ends; late.err == nil {
				r.Drop(late.conn)
			}
		}
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	for turn := 0; ; {
		select {
		case <-next.C:
		case end := <-ends:
			delete(under, end.address)
			failed[end.address] = true
			r.Ended(end.address, end.err)
			switch {
			case end.err == nil:
				return end.conn, true
			case ctx.Err() != nil, !slices.ContainsFunc(r.Turns, func(i int) bool { return !failed[i] }):
				return conn, false
			case turn >= len(r.Turns): // the timer gives an address another try
				next.Reset(LongestPause) // a server that refuses this client logs that each time
				continue
			}
		}
		for range r.Turns {
			address := r.Turns[turn%len(r.Turns)]
			if turn++; !under[address] {
				under[address] = true
				go func() {
					conn, err := r.Open(ctx, address)
					ends <- result[C]{address, conn, err}
				}()
				break
			}
		}
		next.Reset(Stagger)
	}
}
