package history

import (
	"slices"
	"time"
)

// A Run is everything that is known about a run after it has healed, at all destinations.
type Run struct {
	Rows         []Row      // every row that a writer inserted, whatever happened to it
	Deliveries   []Delivery // messages that the broker holds, each stream in its order
	Destinations []Destination
	Faults       []Fault
	Held         []Held
	Exits        []Exit
	Deletes      bool          // rows are deleted once they are relayed
	Grace        time.Duration // as in a History
}

// A Destination is one of the destinations of the rows, with the state of the rows there at the end.
type Destination struct {
	Name        string
	Takes       func(topic string) bool   // reports whether the rows of a topic go there
	Topic       func(topic string) string // topic under which the rows of a topic are published
	Topics      []string                  // all topics under which rows are published there
	FailedOf    string                    // the origin of dead letters; "" for all other destinations
	RelayedOf   string                    // the origin of notices; "" for all other destinations
	Spared      []string                  // kinds of bad rows that this destination can nevertheless deliver
	Table       []Final                   // the state of each row there
	Failures    []Failure                 // all failures that were committed there
	MaxInFlight int                       // rows that one replica may have in flight there
}

// A Failure is a failure of a row whose transaction was committed.
type Failure struct {
	ID string
	At string // failed_at, in the form of a dead letter's header
}

// Judge returns everything that contradicts the promises, at any destination.
func (r *Run) Judge() []Violation {
	common := &judge{History: &History{Held: r.Held, Exits: r.Exits}}
	common.processes()
	all := common.violations
	for i := range r.Destinations {
		d := &r.Destinations[i]
		for _, v := range append(r.Of(d).Judge(), r.afterwards(d)...) {
			v.Destination = d.Name
			all = append(all, v)
		}
	}
	return all
}

// Duplicates returns the number of deliveries that repeat an earlier one to the same destination.
func (r *Run) Duplicates() (n int) {
	for i := range r.Destinations {
		n += r.Of(&r.Destinations[i]).Duplicates()
	}
	return n
}

// Of returns the history of one destination. A fault at another destination does not allow repetitions at this one.
func (r *Run) Of(d *Destination) *History {
	h := &History{
		Rows: r.taken(d), Deliveries: r.deliveries(d), Table: d.Table, Faults: slices.Clone(r.Faults),
		Deletes:     r.Deletes,
		MaxInFlight: d.MaxInFlight, Grace: r.Grace,
	}
	for i := range h.Faults {
		if f := &h.Faults[i]; f.Destination != "" && f.Destination != d.Name {
			f.Replicas = 0
		}
	}
	switch origin := r.origin(d); {
	case d.FailedOf != "":
		h.MayBeEmpty = true
		h.Rows, h.Table = r.letters(d, origin), slices.Clone(d.Table)
		failed := origin.failed()
		for i := range h.Table {
			h.Table[i].ID = letter(h.Table[i].ID, failed[h.Table[i].ID])
		}
	case d.RelayedOf != "":
		h.Rows = r.notices(d, origin)
	}
	return h
}

// origin returns the destination whose rows a destination takes, or nil.
func (r *Run) origin(d *Destination) *Destination {
	for i := range r.Destinations {
		if name := r.Destinations[i].Name; name != "" && (name == d.FailedOf || name == d.RelayedOf) {
			return &r.Destinations[i]
		}
	}
	return nil
}

// failed returns the time of the present failure of each failed row.
func (d *Destination) failed() map[string]string {
	failed := map[string]string{}
	for _, f := range d.Table {
		if f.Failed {
			failed[f.ID] = f.FailedAt
		}
	}
	return failed
}

// deliveries returns the deliveries to a destination. Deliveries under an unknown topic count as the first
// destination's.
func (r *Run) deliveries(d *Destination) []Delivery {
	var own []Delivery
	for _, got := range r.Deliveries {
		i := slices.IndexFunc(r.Destinations, func(d Destination) bool { return slices.Contains(d.Topics, got.Topic) })
		if &r.Destinations[max(i, 0)] != d {
			continue
		}
		if d.FailedOf != "" {
			got.ID, got.Body.ID = letter(got.ID, got.Failure), letter(got.Body.ID, got.Failure)
		}
		own = append(own, got)
	}
	return own
}

// taken returns all rows as seen by a destination that takes rows by their topics.
func (r *Run) taken(d *Destination) []Row {
	rows := slices.Clone(r.Rows)
	for i := range rows {
		if rows[i].Outcome == Committed && !d.Takes(rows[i].Topic) {
			rows[i].Outcome = Elsewhere
		}
		rows[i].Topic = d.Topic(rows[i].Topic)
	}
	return rows
}

// notices returns all rows, without a key, as seen by a destination that takes the rows that the origin has relayed.
func (r *Run) notices(d, origin *Destination) []Row {
	relayed := map[string]bool{}
	for _, f := range origin.Table {
		relayed[f.ID] = f.Relayed && !f.Failed
	}
	rows := slices.Clone(r.Rows)
	for i := range rows {
		row := &rows[i]
		if row.Outcome == Committed && !(relayed[row.ID] && origin.Takes(row.Topic)) {
			row.Outcome = Elsewhere
		}
		row.Topic, row.Key = d.Topic(row.Topic), ""
	}
	return rows
}

// letters returns a row without a key for each failure that was committed at the origin. The present failure must be
// delivered. A failure that an operator has cleared may have been delivered.
func (r *Run) letters(d, origin *Destination) []Row {
	byID := map[string]Row{}
	for _, row := range r.Rows {
		byID[row.ID] = row
	}
	failed := origin.failed()
	var rows []Row
	for _, f := range origin.Failures {
		row, known := byID[f.ID]
		if !known || !origin.Takes(row.Topic) {
			continue
		}
		row.ID, row.Topic, row.Key = letter(f.ID, f.At), d.Topic(row.Topic), ""
		if slices.Contains(d.Spared, row.Bad) {
			row.Bad = ""
		}
		if failed[f.ID] != f.At {
			row.Outcome = Withdrawn
		}
		rows = append(rows, row)
	}
	return rows
}

// letter returns the id of a dead letter: each failure of a row has its own.
func letter(id, failedAt string) string { return id + " failed at " + failedAt }

// afterwards finds notices that arrived before the rows that they are about, where one stream holds both.
func (r *Run) afterwards(d *Destination) []Violation {
	if d.RelayedOf == "" {
		return nil
	}
	origin := r.origin(d)
	first := map[string]Delivery{}
	for _, got := range r.deliveries(origin) {
		if _, again := first[got.ID]; !again {
			first[got.ID] = got
		}
	}
	var all []Violation
	for _, notice := range r.deliveries(d) {
		if there, delivered := first[notice.ID]; delivered && there.Stream == notice.Stream &&
			there.Offset > notice.Offset {
			all = append(all, Violation{
				Check: Afterwards, Text: notice.ID + " was delivered before the row that it is about",
				Evidence: []string{"notice: " + notice.String(), "at " + origin.Name + ": " + there.String()},
			})
		}
	}
	return all
}
