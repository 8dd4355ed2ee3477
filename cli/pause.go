package cli

import (
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
)

// pauseFile follows a setting that pauses, which may be a file. If the file is neither true nor false, the state does
// not change and the problem is logged once.
type pauseFile struct {
	config.Switch
	logger *slog.Logger
	on     bool
	logged string // the problem with the file that was logged last, empty if there is none
}

func newPauseFile(s config.Switch, logger *slog.Logger) *pauseFile {
	return &pauseFile{Switch: s, logger: logger}
}

// paused returns the present value of the setting. One goroutine calls it.
func (p *pauseFile) paused() bool {
	on, err := p.Read()
	switch {
	case err == nil:
		p.on, p.logged = on, ""
	case p.logged != err.Error():
		p.logged = err.Error()
		p.logger.Warn("pause file is neither true nor false; the last state is kept", "file", p.File(), "paused", p.on,
			"error", err)
	}
	return p.on
}
