package outbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// distance is how far away the database is: the time that a request and its answer are on the way, whatever the server
// does for it.
type distance struct {
	mu    sync.Mutex
	times [6]time.Duration // the last round trips of empty statements
	n     int              // total number of them
	due   time.Time        // time of the next measurement
}

const (
	distanceEvery = 10 * time.Second
	distanceTries = 2 // per measurement; one may have met a busy machine
)

// measure returns the shortest of the last round trips. Now and then it first sends empty statements to find out; the
// context limits them.
func (d *distance) measure(ctx context.Context, conn *pgx.Conn) (time.Duration, error) {
	if d.begin(time.Now()) {
		for range distanceTries {
			started := time.Now()
			if err := conn.Ping(ctx); err != nil {
				return 0, fmt.Errorf("reach the database: %w", err)
			}
			d.add(time.Since(started))
		}
	}
	return d.shortest(), nil
}

// begin reports whether a measurement is due, and then sets when the next one is.
func (d *distance) begin(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Before(d.due) {
		return false
	}
	d.due = now.Add(distanceEvery)
	return true
}

func (d *distance) add(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times[d.n%len(d.times)] = took
	d.n++
}

// shortest returns the shortest of the round trips, or 0 if none has been measured.
func (d *distance) shortest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == 0 {
		return 0
	}
	return slices.Min(d.times[:min(d.n, len(d.times))])
}
