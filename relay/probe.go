package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/relay/internal/report"
)

// probe checks now and then whether a broker can be reached, for /readyz and destination_up.
type probe struct {
	destination *Destination
	logger      *slog.Logger
	changed     func() // called when the broker can no longer be reached, or can be reached again
	mu          sync.Mutex
	err         error
}

const (
	probeEvery   = 5 * time.Second
	probeSoon    = 500 * time.Millisecond // after a failure
	probeTimeout = 3 * time.Second
)

var errNotProbed = errors.New("not reached yet")

func (p *probe) run(ctx context.Context) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, probeTimeout)
		err := p.ping(limited)
		cancel()
		if ctx.Err() != nil {
			return
		}
		p.set(err)
		wait := probeEvery
		if err != nil {
			wait = probeSoon
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// ping checks the broker once. After a panic nothing is known of the broker. The publisher stays in use, since ending
// what is under way in it would be worse.
func (p *probe) ping(ctx context.Context) (err error) {
	broker, err := p.destination.open()
	if err != nil {
		return err
	}
	defer func() {
		if value := recover(); value != nil {
			caught := panics.Caught(value)
			p.destination.panicked(p.logger, "the destination seems to be out of reach", caught)
			err = publisher.UnavailableError(publisher.ScopeDestination, "panic",
				"the publisher does not know whether the broker can be reached: %w", caught)
		}
	}()
	return broker.Ping(ctx)
}

func (p *probe) set(err error) {
	p.mu.Lock()
	before := p.err
	p.err = err
	p.mu.Unlock()
	if (err == nil) != (before == nil) {
		p.changed()
	}
	switch {
	case err == nil && before != nil:
		p.destination.reported.Over()
		p.logger.Info("destination can be reached", "destination", p.destination.Name)
	case err != nil && (before == nil || errors.Is(before, errNotProbed) || !report.Same(before, err)):
		if !p.destination.reported.Logged(err) {
			p.logger.Warn("destination cannot be reached", "destination", p.destination.Name, "error", err)
		}
	}
}

// state returns why the broker cannot be reached, or nil if it can.
func (p *probe) state() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// usable returns why the destination cannot be used, or nil if it can. It cannot be used if the broker is not reached,
// or if its engine has found that nothing can be published to it.
func (r *Relay) usable(p *probe) error {
	if err := p.state(); err != nil {
		return err
	}
	return p.destination.snapshot().Down
}

// unable returns why this replica cannot publish: a destination that is not paused cannot be used. Other replicas may
// be able to publish.
func (r *Relay) unable() error {
	var errs []error
	for _, p := range r.probes {
		if !p.destination.paused.Load() {
			errs = append(errs, r.usable(p))
		}
	}
	return errors.Join(errs...)
}

// lookAtOwnership makes the owner notice that this replica can publish again, or no longer can.
func (r *Relay) lookAtOwnership() { r.owner.Look() }
