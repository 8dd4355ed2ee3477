package config

import "fmt"

// leastBytes is what each destination must have of the bytes in flight.
const leastBytes = 1 << 10

// checkLimits checks what the tags cannot say about the limits of the destinations.
func checkLimits(cfg *Config, scopes []*scope) {
	checkShares(cfg, scopes)
	for i, s := range scopes {
		if d := &cfg.Destinations[i]; d.MaxAge > 0 && d.Columns != nil && d.Columns["failed_at"] == "" {
			s.bad("MAX_AGE", "needs a column for failed_at, and %s names none; add one or remove the setting", s.origins["COLUMNS"].variable)
		}
	}
}

// checkShares checks that the parts of the common bounds that destinations have for themselves fit into these bounds, and leave
// something for the others.
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
		text := fmt.Sprintf("is too large: the parts of all destinations are %d %s together, and %s%s is %d", sum, unit, Prefix, key, common)
		if others > 0 {
			text += ", which must leave something for the destinations without a part of their own"
		}
		scopes[largest].bad(key, "%s; lower the one or raise the other", text)
	}
	parts("MAX_IN_FLIGHT", int64(cfg.MaxInFlight), func(d *Destination) int64 { return int64(d.MaxInFlight) }, 1, "rows")
	parts("MAX_IN_FLIGHT_BYTES", cfg.MaxInFlightBytes, func(d *Destination) int64 { return d.MaxInFlightBytes }, leastBytes, "bytes")
}
