package outbox

import "testing"

// Equal order values are ordered by the ids, if these sort as bytes or numbers do.
func TestPositionsBefore(t *testing.T) {
	for name, c := range map[string]struct {
		idOID         uint32
		first, second Position
		before        bool
	}{
		"by order value":         {oidInt8, Position{Ordinal: 1, id: "\x00\x09"}, Position{Ordinal: 2, id: "\x00\x01"}, true},
		"by number":              {oidInt2, Position{id: "\x00\x7f"}, Position{id: "\x01\x00"}, true},
		"a negative number":      {oidInt2, Position{id: "\xff\xff"}, Position{id: "\x00\x00"}, true},
		"by uuid":                {oidUUID, Position{id: "\x7f4567890123456"}, Position{id: "\xff4567890123456"}, true},
		"the order of text":      {oidText, Position{id: "a"}, Position{id: "b"}, false},
		"nothing taken till now": {oidInt8, Position{Ordinal: 1, id: "\x00\x00\x00\x00\x00\x00\x00\x01"}, Position{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			table := &Table{idOID: c.idOID}
			if got := table.Before(c.first, c.second); got != c.before {
				t.Errorf("first before second: %v", got)
			}
			if c.before && table.Before(c.second, c.first) {
				t.Error("second before first too")
			}
		})
	}
}
