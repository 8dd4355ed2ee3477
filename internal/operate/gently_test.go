package operate

import "testing"

// TestReplayWaits: the last row of a replay waits for older rows of its key as long as they go before it, and for no
// others: not for rows with available_at, which keep no order, nor for rows of other destinations.
func TestReplayWaits(t *testing.T) {
	t.Parallel()
	const audit = "audit"
	for name, c := range map[string]struct {
		shared    bool   // two destinations share the columns; otherwise audit has its own
		at        string // the destination of the selection
		older     string // topic of the older row
		available string
		waits     bool
	}{
		"a row of the destination":                {older: "a", at: audit, waits: true},
		"a row of a destination with all columns": {older: "b", at: "orders", waits: true},
		"a row of any destination":                {older: "b", waits: true},
		"a row that is not due":                   {older: "a", at: audit, available: "1 year"},
		"a row that has become due":               {older: "a", at: audit, available: "-1 minute"},
		"a row that the destination never takes":  {older: "b", at: audit},
		"a row of the one that shares columns":    {shared: true, older: "a", waits: true},
		"a row of another one that shares them":   {shared: true, older: "b", waits: true},
		"one of another, with --destination":      {shared: true, older: "b", at: audit},
		"a row that nobody takes":                 {shared: true, older: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o := several(t)
			if c.shared {
				o = open(t, s, "others b*", "audit a*")
			}
			s.Exec(t, `insert into outbox_messages (topic, key, payload, available_at, inserted_at)
				values ($1, 'k', '{}', now() + nullif($2, '')::interval, now() - interval '1 hour')`, c.older, c.available)
			s.Exec(t, `insert into outbox_messages (topic, key, payload, inserted_at, relayed_at, audit_at)
				values ('a', 'k', '{}', now() - interval '1 hour', now(), now())`)
			startOwner(t, s, o, 16)
			for {
				now, err := o.Ownership(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if now.Unowned == 0 {
					break
				}
			}
			waited := false
			result, err := choose(t, o, Replay(), Selection{Destination: c.at}).Apply(t.Context(), "", Progress{
				Done: func(int64) {},
				Row:  func(Chosen) error { return nil },
				Waits: func(string) {
					waited = true
					s.Exec(t, "update outbox_messages set relayed_at = now(), audit_at = now() where seq = 1")
				},
			})
			if err != nil || waited != c.waits || result.Left > 0 || result.Changed == 0 {
				t.Errorf("waited %t, %+v (%v)", waited, result, err)
			}
		})
	}
}
