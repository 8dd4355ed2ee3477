package operate

import (
	"time"

	"github.com/outbox-relay/outbox-relay/internal/outbox"
	"github.com/outbox-relay/outbox-relay/internal/owner"
)

// A Report is what `outbox-relay status --json` prints and GET /status answers. The names of its JSON fields are
// stable; fields may be added. It holds neither keys nor payloads.
//
// It has two sources. The table yields its rows and its locks, from any host ([Outbox.ReportOf], [Counter]). What only
// a running process knows is in the fields named Process, and in Held: they are null in a report without a process.
type Report struct {
	At    time.Time `json:"at"`
	Table string    `json:"table"` // schema.table
	// Limit is where counting stops: a count that is equal to it means that many or more.
	Limit        int64         `json:"limit"`
	Destinations []Destination `json:"destinations"`
	Untaken      *Backlog      `json:"untaken"`   // pending rows that no destination takes; null if every row is taken
	Ownership    *Ownership    `json:"ownership"` // null when it could not be read
	Process      *Process      `json:"process"`   // null if no process was asked or none answered
	Problems     []string      `json:"problems"`  // what could not be determined, and what to do about it; for display
	Rows         []Row         `json:"rows,omitempty"`
	Size         *outbox.Size  `json:"-"` // of the table; nil if it was not measured
}

// A Destination is the part of one destination.
type Destination struct {
	Name       string `json:"name"`
	BestEffort bool   `json:"best_effort"` // readiness, drain and prune do not wait for it
	Backlog
	Held    *int64              `json:"held"` // rows that are known to wait for something other than their turn
	Process *DestinationProcess `json:"process"`
}

// AddProcess adds what a process knows. Each due row of a paused destination counts as held: it waits for the pause,
// also if it waits for something else. If nobody has counted the due rows, how many are held is not known.
func (d *Destination) AddProcess(p *DestinationProcess) {
	d.Process, d.Held = p, new(int64)
	due := d.Due
	counted := false
	for i := range p.Reasons {
		if p.Reasons[i].Reason == reasonPaused {
			due, counted = &p.Reasons[i].Rows, true
		} else {
			*d.Held += p.Reasons[i].Rows
		}
	}
	switch {
	case !p.Paused:
	case due == nil:
		d.Held = nil
	default:
		*d.Held = max(*d.Held, *due)
		if !counted {
			p.Reasons = append(p.Reasons, ReasonRows{Reason: reasonPaused, Rows: *due})
		}
	}
}

// reasonPaused is the value of rows_held's label for rows of a paused destination.
const reasonPaused = "paused"

// A Backlog is what was counted of a destination.
type Backlog = outbox.Backlog

// A Topic is what was counted of one of its topics.
type Topic = outbox.Topic

// Shares says who holds shards.
type Shares struct {
	Shards   int       `json:"shards"`   // as divided by the replicas that own any, otherwise as configured
	Owned    int       `json:"owned"`    // shards that some replica holds
	Unowned  int       `json:"unowned"`  // shards that no replica holds
	Replicas []Replica `json:"replicas"` // of an ownership, the one with the most shards first
}

// An Ownership says which replicas relay, according to the advisory locks. Destinations that keep their state in the
// same columns share their shards; the groups are the parts of the numbers.
type Ownership struct {
	Shares
	Groups []Group `json:"groups"`
}

// A Group is the destinations that keep their state in the same columns, and the replicas that relay them.
type Group struct {
	outbox.Group
	Configured bool             `json:"configured"` // whether the destinations are configured where the report was made
	Stranger   *outbox.Stranger `json:"-"`          // the only destination, if it is not configured; otherwise nil
	Shares
}

// Unserved reports whether no replica takes part in the ownership of the group.
func (g Group) Unserved() bool { return len(g.Replicas) == 0 }

// A Replica is a process that takes part in the ownership.
type Replica struct {
	owner.Replica `json:"-"`

	Backend    int32 `json:"backend"`     // process id of its control connection at the server (pg_stat_activity.pid)
	Shards     int   `json:"shards"`      // number of shards that it holds
	Of         int   `json:"of"`          // number of shards by its configuration
	CanPublish bool  `json:"can_publish"` // whether the replica says that it can publish to all of these destinations
}

// A Process is what the answering process knows about itself.
type Process struct {
	Version   string    `json:"version"`
	Commit    string    `json:"commit"`
	StartedAt time.Time `json:"started_at"`
	Ready     bool      `json:"ready"`
	Checks    []Check   `json:"checks"`
	Shards    int       `json:"shards"` // number of shards that it owns
	InFlight  int64     `json:"in_flight"`
}

// A Check is one line of /readyz?verbose.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Text string `json:"text"` // the problem or the note; may be empty
}

// A DestinationProcess is what the answering process knows about one destination. Other replicas may see it
// differently.
type DestinationProcess struct {
	Up          bool         `json:"up"`     // its broker can be reached and takes messages
	Paused      bool         `json:"paused"` // paused, like all destinations or alone
	Reason      string       `json:"reason"` // why the destination is not up; otherwise empty
	InFlight    int64        `json:"in_flight"`
	BlockedKeys int64        `json:"blocked_keys"`
	Holds       []Hold       `json:"holds"`   // what is in trouble, the oldest first; some of very many
	History     []Interval   `json:"history"` // at most the last hour, the oldest first
	Relayed     int64        `json:"relayed"` // rows since the process started
	Reasons     []ReasonRows `json:"reasons"` // Held, divided by reason
}

// ReasonRows is one series of the metric rows_held.
type ReasonRows struct {
	Reason string `json:"reason"`
	Rows   int64  `json:"rows"`
}

// A Hold is something at the broker that is in trouble, and the rows that wait for it.
type Hold struct {
	Reason string    `json:"reason"` // the value of the label in rows_held
	What   string    `json:"what"`   // the topic, stream, exchange, queue or partition
	Topics []string  `json:"topics"` // topics whose rows wait, as far as known
	Error  string    `json:"error"`  // the broker's last answer, and what to do about it
	Since  time.Time `json:"since"`
}

// An Interval is a summary of a past time span.
type Interval struct {
	From       time.Time `json:"from"`
	Seconds    float64   `json:"seconds"`
	Relayed    int64     `json:"relayed"`
	Failed     int64     `json:"failed"`
	LatencyP50 *float64  `json:"latency_p50_seconds"` // from due to acknowledged; null if there was no row
	LatencyP99 *float64  `json:"latency_p99_seconds"`
}

// A Row says where one row is and why (`status --id`).
type Row struct {
	ID    string     `json:"id"`
	Topic string     `json:"topic"`
	Shard int        `json:"shard"`
	Owner *int32     `json:"owner"` // [Fate.Owner] of the first of the destinations
	Fates []Fate     `json:"destinations"`
	At    *time.Time `json:"inserted_at"`
	key   *string
}

// A Fate says where a row is at one destination.
type Fate struct {
	Destination string `json:"destination"`
	// State is due, scheduled, retrying, relayed, failed, discarded or "not taken".
	State     string     `json:"state"`
	Why       string     `json:"why"` // the reason, for display
	Attempt   *int64     `json:"attempt"`
	LastError *string    `json:"last_error"`
	DueAt     *time.Time `json:"due_at"` // when the row is or was due
	Owner     *int32     `json:"owner"`  // [Replica.Backend] of the owner of its shard; null if there is none
	RelayedAt *time.Time `json:"relayed_at"`
	FailedAt  *time.Time `json:"failed_at"`
	Topic     *string    `json:"-"` // on the broker; nil if it is not known
}
