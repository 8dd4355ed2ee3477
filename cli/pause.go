package cli

import (
	"log/slog"

	"github.com/outbox-relay/outbox-relay/config"
)

// pauseFile follows a setting that pauses, which may be a file. What a file says that is neither true nor false changes nothing and is
// told once.
type pauseFile struct {
	config.Switch
	logger *slog.Logger
	on     bool
	told   string // what was told to be wrong with the file, empty when nothing is
}

func newPauseFile(s config.Switch, logger *slog.Logger) *pauseFile {
	return &pauseFile{Switch: s, logger: logger}
}

// paused returns whether the setting says so now. One goroutine calls it.
func (p *pauseFile) paused() bool {
	on, err := p.Read()
	switch {
	case err == nil:
		p.on, p.told = on, ""
	case p.told != err.Error():
		p.told = err.Error()
		p.logger.Warn("the pause file cannot be understood, and the last state stays", "file", p.File(), "paused", p.on, "error", err)
	}
	return p.on
}
