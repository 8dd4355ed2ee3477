package connect

import (
	"context"
	"errors"
	"time"
)

// Stagger is how long an address may take to accept the connection before the next one is tried as well. Waiting for
// one address after the other took 15 seconds with three that did not answer.
const Stagger = 250 * time.Millisecond

// A Race tries several addresses until one of them accepts the connection. Each address is tried when the previous one
// has failed, or has not answered for [Stagger]. An address that has failed is tried again while another one is still
// being waited for, since it may come back first. The race is lost when all turns have been taken and have ended. A
// Race is used once, by one goroutine; only Open and Drop run in others.
type Race[C any] struct {
	// Turns are the numbers of the addresses to try, in order.
	Turns []int
	// Again is the number of addresses that are tried again: those numbered below it.
	Again int
	// Open connects to an address. It must return soon after ctx has ended.
	Open func(ctx context.Context, address int) (C, error)
	// Drop closes a connection that was made after the race was won.
	Drop func(C)
	// Go runs a function in a goroutine. The caller uses it to wait for goroutines that outlive the race.
	Go func(func())
	// Ended is called for each try that has ended, in the goroutine of Run.
	Ended func(address int, err error)

	under  map[int]bool // addresses that are being tried
	again  int          // address to try again next
	chance int          // number of turns that have been taken and have not ended
}

// A result is the outcome of one try.
type result[C any] struct {
	address int
	turn    bool // the try was one of Turns, not a repetition
	conn    C
	err     error
}

// Run returns the first connection and its address. It returns false if there is none; Ended was then called for each
// turn. If ctx ends, the race ends with the next try that ends. Connections that are made after that are dropped in the
// background, so that Run does not wait for the slowest address.
func (r *Race[C]) Run(ctx context.Context) (conn C, address int, won bool) {
	ctx, cancel := context.WithCancel(ctx)
	ends := make(chan result[C])
	r.under = map[int]bool{}
	defer func() {
		cancel()
		under := len(r.under)
		r.Go(func() {
			for range under {
				if late := <-ends; late.err == nil {
					r.Drop(late.conn)
				}
			}
		})
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case end := <-ends:
			delete(r.under, end.address)
			r.Ended(end.address, end.err)
			if end.turn {
				r.chance--
			}
			switch {
			case end.err == nil:
				return end.conn, end.address, true
			case ctx.Err() != nil, len(r.Turns) == 0 && r.chance == 0:
				return conn, 0, false
			case len(r.Turns) == 0:
				if f, ok := errors.AsType[*Failure](end.err); !ok || !f.Absent {
					next.Reset(LongestPause) // a server that refuses this client logs that each time
				}
				continue // the timer gives the address another try
			}
		}
		if address, turn, ok := r.turn(); ok {
			r.under[address] = true
			r.Go(func() {
				conn, err := r.Open(ctx, address)
				ends <- result[C]{address, turn, conn, err}
			})
		}
		next.Reset(Stagger)
	}
}

// turn returns the address to try next, if there is one that is not being tried. First come the turns, then those that
// are tried again, in a circle. No address is tried twice at the same time.
func (r *Race[C]) turn() (address int, first, ok bool) {
	for len(r.Turns) > 0 {
		address, r.Turns = r.Turns[0], r.Turns[1:]
		if !r.under[address] {
			r.chance++
			return address, true, true
		}
	}
	for range r.Again {
		address = r.again % r.Again
		r.again++
		if !r.under[address] {
			return address, false, true
		}
	}
	return 0, false, false
}
