package config

import "fmt"

// leastBytes is the least share of the bytes in flight for each destination.
const leastBytes = 1 << 10

// checkLimits checks what the tags cannot express about the limits of the destinations.
func checkLimits(cfg *Config, scopes []*scope) {
	checkShares(cfg, scopes)
	for i, s := range scopes {
		if d := &cfg.Destinations[i]; d.MaxAge > 0 && d.Columns != nil && d.Columns["failed_at"] == "" {
			s.bad("MAX_AGE", "requires a column for failed_at, but %s does not name one; add it or remove the setting",
				s.origins["COLUMNS"].variable)
		}
	}
}

// checkShares checks that the destinations' own shares of the common bounds fit into these bounds, and leave something for the
// other destinations.
func checkShares(cfg *Config, scopes []*scope) {
	parts := func(key string, common int64, of func(*Destination) int64, least int64, unit string) {
		var own, sum int64
		largest := 0
		for i := range cfg.Destinations {
			if part := of(&cfg.Destinations[i]); part > 0 {
				own++
				sum += part
				if part > of(&cfg.Destinations[largest]) {
					largest = i
				}
			}
		}
		others := int64(len(cfg.Destinations)) - own
		if own == 0 || sum+others*least <= common {
			return
		}
		text := fmt.Sprintf("is too large: the shares of all destinations are %d %s in total, but %s%s is %d", sum, unit, Prefix, key, common)
		if others > 0 {
			text += " and must leave some for the destinations without a share of their own"
		}
		scopes[largest].bad(key, "%s; lower one or raise the other", text)
	}
	parts("MAX_IN_FLIGHT", int64(cfg.MaxInFlight), func(d *Destination) int64 { return int64(d.MaxInFlight) }, 1, "rows")
	parts("MAX_IN_FLIGHT_BYTES", cfg.MaxInFlightBytes, func(d *Destination) int64 { return d.MaxInFlightBytes }, leastBytes, "bytes")
}
