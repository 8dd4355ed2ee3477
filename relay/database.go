package relay

import (
	"log/slog"
	"sync"
)

// database knows whether the database answered last, and logs when that changes.
type database struct {
	logger *slog.Logger
	mu     sync.Mutex
	known  bool
	err    error
}

// report takes note of the result of a statement.
func (d *database) report(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil && (d.err == nil || !d.known):
		d.logger.Warn("database cannot be used", "error", err)
	case err == nil && d.err != nil:
		d.logger.Info("database is back")
	}
	d.known, d.err = true, err
}

// state returns the last error, and whether anything is known yet.
func (d *database) state() (err error, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err, d.known
}
