package relay

import (
	"log/slog"
	"sync"
)

// database knows whether the database answered last, to reads and to writes apart, and logs when that
// changes. A role that may read and not write must not look well after each read.
type database struct {
	logger  *slog.Logger
	mu      sync.Mutex
	reads   error
	writes  map[int]error // to each set of columns
	trouble bool          // has been logged
}

// read takes note of the result of a read.
func (d *database) read(err error) { d.report(func() { d.reads = err }) }

// wrote takes note of the result of a write to a set of columns. That another one can be written says nothing of this one.
func (d *database) wrote(state int, err error) {
	d.report(func() {
		delete(d.writes, state)
		if err != nil {
			if d.writes == nil {
				d.writes = map[int]error{}
			}
			d.writes[state] = err
		}
	})
}

func (d *database) report(note func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	note()
	switch err := d.err(); {
	case err != nil && !d.trouble:
		d.logger.Warn("database cannot be used", "error", err)
	case err == nil && d.trouble:
		d.logger.Info("database is back")
	}
	d.trouble = d.err() != nil
}

// err is why the database cannot be used.
func (d *database) err() error {
	if d.reads != nil {
		return d.reads
	}
	for _, err := range d.writes {
		return err
	}
	return nil
}

// state returns why the database cannot be used, nil when it can or nothing is known.
func (d *database) state() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err()
}

// stopped says that there are no more reads and writes to learn from: what was wrong last may be over. That it is, the next ones tell.
func (d *database) stopped() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads, d.writes = nil, nil
}
