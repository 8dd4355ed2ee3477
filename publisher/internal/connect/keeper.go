package connect

import (
	"context"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/publisher"
)

const (
	// checkEvery is how often a connection is checked while nothing else asks for a check.
	checkEvery = 2 * time.Second
	// signTime is how long a server may take to send anything at all after it was greeted. Healthy ones take
	// milliseconds; a garbage collection or a packet that is lost on the way takes some tenths of a second.
	signTime = time.Second
	// renewPause is how long an outdated link is left alone after no other could be made. Calls may have to wait while
	// that is tried, and the broker logs each refusal.
	renewPause = 10 * time.Second
)

// A Keeper keeps one link of a publisher up, and lends it to calls:
//
//	       dial succeeds            greeted, and nothing comes for a second
//	none ----------------> up <----------------------------------------------> silent
//	 ^                     | |      anything comes                                |
//	 |     it has ended    | | outdated, and another link is made                 | another link is made
//	 `---------------------' `-----------------------> retired <------------------'
//
// New calls use the link that is up. A silent link may be slow, frozen or gone, or a firewall may have forgotten the
// connection; what tells them apart is another connection. Until there is one, new messages are unavailable. A retired
// link ends when no call and no answer that is still owed needs it.
//
// The exported fields are set before the first use. Their functions are called by one goroutine at a time.
//
// What always holds:
//
//   - At most one goroutine dials, checks and replaces: run, from the first Borrow until the end of Life. A call only
//     asks for a check, and waits for what comes of it.
//   - No link is closed because of time alone. It ends by itself, with Life, after it was retired and nothing needs it,
//     or because Replaced finds that its server answers on another connection.
//   - A call of Publish never waits for a dial that follows a failed one: it gets the reason of the failure at once.
//   - While the present link can be used, no call of Publish waits for the making of another one.
type Keeper[L Link] struct {
	Life   *Lifetime
	Broker string // name of the broker in errors
	// Dial makes a link to one of the servers.
	Dial func(context.Context) (L, error)
	// Outdated reports whether another link must take the place of this one, for example because the credentials have
	// changed.
	Outdated func(L) bool
	// Stays is told why an outdated link stays, once for each reason.
	Stays func(L, error)
	// Replaced is told that another link takes the place of a silent one.
	Replaced func(silent, next L)

	begun sync.Once
	look  chan struct{} // holds a request for a check

	// What is known of tries to replace an outdated link; both belong to the goroutine.
	renew time.Time // earliest time of the next try
	stays string    // why the last one failed, as it was told

	mu    sync.Mutex
	link  L             // zero while there is none
	down  error         // why there is none; nil while an attempt is under way that calls wait for
	tried chan struct{} // closed and replaced when an attempt or a check has ended
}

// Borrow returns the link, for which the caller must count its users down, or the answer for messages that cannot be
// sent now. It waits for the attempt to connect that follows the first call, or the end of a link that had lasted. If
// check is true, it waits until a check of the link, or another attempt, has ended. With check, that is two seconds at
// most if there is a link: the keeper may be dialling a host that does not answer, and the link there is may be good.
// Every link that it returns is given back once, by Users.Add(-1).
func (k *Keeper[L]) Borrow(ctx context.Context, check bool) (L, error) {
	k.begun.Do(func() {
		k.look, k.tried = make(chan struct{}, 1), make(chan struct{})
		k.Life.Start(k.run)
	})
	var none L
	for waits := check; ; waits = false {
		k.mu.Lock()
		link, down, tried := k.link, k.down, k.tried
		k.mu.Unlock()
		switch {
		case k.Life.Over():
			return none, publisher.ErrClosed
		case waits && ctx.Err() == nil:
			k.Look()
		case link != none:
			if !link.Common().Users.Use() {
				continue // another one has taken its place
			}
			if err := link.Away(); err != nil {
				link.Common().Users.Add(-1)
				k.Look()
				return none, err
			}
			return link, nil
		case down != nil:
			return none, down
		case ctx.Err() != nil && check:
			return none, publisher.UnavailableError(publisher.ScopeDestination, "connecting",
				"%s has not answered yet: %w", k.Broker, context.Cause(ctx))
		case ctx.Err() != nil:
			return none, publisher.ErrNotAttempted
		}
		var late <-chan time.Time
		if link != none { // which is used all the same if the check takes long, because another one is dialled
			late = time.After(2 * signTime)
		}
		select {
		case <-tried:
		case <-late:
		case <-ctx.Done():
		}
	}
}

// Look asks for a check of the link, and does not wait for it. Several requests are one.
func (k *Keeper[L]) Look() {
	select {
	case k.look <- struct{}{}:
	default: // one is asked for already
	}
}

// run keeps a link up until the publisher is closed. A link that lasted is replaced at once, and calls wait for that;
// one that ended within a second is replaced after the pause of the backoff, or a server that accepts and closes would
// be dialled in a tight loop.
func (k *Keeper[L]) run() {
	var none L
	defer k.report(none, publisher.ErrClosed) // for calls that began to wait just before
	var backoff Backoff
	for ctx := k.Life.Ctx; ctx.Err() == nil; {
		link, err := k.Dial(ctx)
		begun := time.Now()
		for link != none {
			link, err = k.hold(ctx, link)
		}
		if time.Since(begun) > LongestPause { // otherwise something ends each link at once
			backoff.Reset()
			k.report(none, nil)
			continue
		}
		k.report(none, err)
		select {
		case <-time.After(backoff.Next()):
		case <-ctx.Done():
		}
	}
}

// report publishes what has become of the link, or of an attempt, to all waiting calls. The channel is closed and
// replaced under the lock, so that no call waits for a channel that was closed before it looked.
func (k *Keeper[L]) report(link L, down error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.link, k.down = link, down
	close(k.tried)
	k.tried = make(chan struct{})
}

// hold lends the link out. It returns the link that has taken its place, or the reason why there is none. It checks the
// link every two seconds and when a call asks for it.
func (k *Keeper[L]) hold(ctx context.Context, link L) (next L, err error) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		k.report(link, nil)
		select {
		case <-tick.C:
		case <-k.look:
		case <-link.Common().Ended:
			return next, link.Lost()
		case <-ctx.Done():
			link.Close()
			return next, publisher.ErrClosed
		}
		var none L
		if next = k.check(ctx, link); next != none {
			k.report(next, nil)
			k.retire(link)
			return next, nil
		}
	}
}

// check returns the link that is to take the place of this one, or none. A new dial is the only way to tell a dead
// connection from a slow server: from inside the old one, both are silence. If the old link speaks while the new one is
// made, the new one is closed, and the old one stays.
func (k *Keeper[L]) check(ctx context.Context, link L) (next L) {
	var none L
	if !time.Now().Before(k.renew) && k.Outdated(link) {
		next, err := k.Dial(ctx)
		if err == nil {
			k.stays = ""
			return next
		}
		k.renew = time.Now().Add(renewPause)
		if why := errtext.Line(err); why != k.stays && ctx.Err() == nil {
			k.stays = why
			k.Stays(link, err)
		}
	}
	begun := time.Now()
	if k.speaks(ctx, link, begun) || ctx.Err() != nil {
		return none
	}
	link.Common().silent.Store(begun.UnixNano())
	next, err := k.Dial(ctx)
	if err != nil {
		return none
	}
	if !link.Common().QuietSince(begun) { // it is only slow
		next.Close()
		return none
	}
	k.Replaced(link, next)
	return next
}

// speaks reports whether the server has sent something since the given time, after it is greeted. A silent one is not
// greeted again: the first greeting is still under way. With RabbitMQ, each greeting would keep one of the few channels
// until it is answered. A link that has ended is not silent, and a greeting may fail because the link is about to end.
func (k *Keeper[L]) speaks(ctx context.Context, link L, since time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, signTime)
	defer cancel()
	state := link.Common()
	if asked := state.Silent() || link.Greet(ctx); !asked || !state.QuietSince(since) {
		return true
	}
	select {
	case <-state.Ended:
		return true
	case <-ctx.Done():
		return !state.QuietSince(since)
	}
}

// retire ends a link when nothing needs it any more. Until then it is greeted, so that the calls that use it can tell
// what is silent. It cannot be lent any more, but what it still owes is waited for.
func (k *Keeper[L]) retire(link L) {
	link.Common().Users.retire()
	k.Life.Go(func() {
		defer link.Close()
		for link.Common().Users.any() && k.Life.Ctx.Err() == nil {
			select {
			case <-time.After(signTime / 4):
				k.speaks(k.Life.Ctx, link, time.Now())
			case <-link.Common().Ended:
				return
			case <-k.Life.Ctx.Done():
			}
		}
	})
}
