package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Rate is a number of rows per unit of time. The zero Rate means no limit.
type Rate struct {
	Rows int
	Per  time.Duration
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// UnmarshalText reads the form 500/s.
func (r *Rate) UnmarshalText(text []byte) error {
	digits, unit, ok := strings.Cut(string(text), "/")
	rows, err := strconv.Atoi(digits)
	per := rateUnits[unit]
	switch {
	case !ok || err != nil || per == 0 || strings.HasPrefix(digits, "+"):
		return errors.New("is not a rate; write a whole number of rows, a slash and s, m, h or d: 500/s, 30/m or 1000/h")
	case rows < 1:
		return errors.New("must be at least 1 row; to stop publishing, use the setting PAUSE")
	}
	*r = Rate{Rows: rows, Per: per}
	return nil
}

// PerSecond returns the number of rows per second, 0 for no bound.
func (r Rate) PerSecond() float64 {
	if r.Per == 0 {
		return 0
	}
	return float64(r.Rows) / r.Per.Seconds()
}

// String returns the form 500/s, and nothing for the zero Rate.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return fmt.Sprintf("%d/%s", r.Rows, unit)
		}
	}
	return ""
}
