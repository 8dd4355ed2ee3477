// Package plan draws the schedule of a run from its seed: how the relays are configured, and which faults happen when.
// The same seed and options always give the same plan.
package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
)

// MaxReplicas is the largest number of replicas that run at the same time.
const MaxReplicas = 4

// Options determine what a plan may contain.
type Options struct {
	Duration time.Duration // time in which rows are written and faults begin
	Replicas int           // number at the beginning; 0 leaves it to the seed
	Clean    bool          // only faults after which nothing may be delivered twice
	Crashes  bool          // the database and the broker may be killed
	Links    bool          // the links to the broker can be disturbed
	Settle   time.Duration // time that a broker needs until it has durably stored that a new queue exists

	// Cluster is the name of a broker of which three nodes run. They fail instead of the only server and the links to
	// it.
	Cluster string

	Destinations int // number of the relays' destinations; 0 and 1 are the same
}

// A Plan is the schedule of one run.
type Plan struct {
	Replicas int
	Settings Settings
	Topic    time.Duration // time when the topic is made for which rows wait from the beginning
	Faults   []Fault       // in the order of their times
}

// Settings of the relays that the seed decides.
type Settings struct {
	MaxInFlight int
	Batch       int
	Shards      int
	Delete      bool // OUTBOX_SETTLE
	Listen      bool // OUTBOX_LISTEN_CHANNEL is not empty
	Doorbell    bool // the doorbell's trigger exists
}

// A Fault is one event of a plan.
type Fault struct {
	At    time.Duration // time since the beginning
	Kind  Kind
	Lasts time.Duration // time until it is repaired
	Pick  int           // the replica, modulo the number of replicas that run
	Count int           // Scale: number of replicas; Burst: number of rows
	To    int           // the destination, if the fault concerns a single one
}

// pauseTakes is the longest time until a relay looks at the file that pauses a destination.
const pauseTakes = time.Second

// New draws a plan. ttl is the time after which a silent owner loses its shards.
func New(seed uint64, o Options, ttl time.Duration) Plan {
	r := rand.New(rand.NewPCG(seed, 0x6368616f73))
	p := Plan{Replicas: 1 + r.IntN(MaxReplicas), Settings: settings(r)}
	if o.Destinations > 1 {
		p.Settings.Delete = false // a row is done when all destinations have processed it
		p.Settings.MaxInFlight *= o.Destinations
	}
	if o.Replicas > 0 {
		p.Replicas = o.Replicas
	}
	p.Topic = o.Settle + time.Duration(r.Int64N(int64(o.Duration/2)))
	kinds := slices.Clone(clean)
	if !o.Clean {
		kinds = append(kinds, unclean...)
	}
	if o.Destinations > 1 {
		kinds = append(kinds, several...)
	}
	killed := crashes
	if o.Cluster != "" {
		kinds = append(kinds, MoveLeaders, MoveLeaders)
		killed = slices.Concat([]Kind{CrashData}, nodes, nodesOf[o.Cluster])
	}
	if !o.Links || o.Cluster != "" {
		kinds = slices.DeleteFunc(kinds, func(k Kind) bool { return slices.Contains(brokerCut, k) })
	}
	for at := time.Second; ; at += time.Duration(300+r.IntN(2200)) * time.Millisecond {
		if at >= o.Duration {
			break
		}
		allowed := kinds
		if o.Crashes && !o.Clean && at >= o.Settle && (at < p.Topic || at >= p.Topic+o.Settle) {
			allowed = slices.Concat(kinds, killed, killed)
		}
		f := Fault{
			At: at, Kind: allowed[r.IntN(len(allowed))], Pick: r.IntN(MaxReplicas),
			Count: 1 + r.IntN(MaxReplicas),
		}
		f.Lasts = time.Duration(200+r.IntN(3000)) * time.Millisecond
		switch f.Kind {
		case Freeze:
			f.Lasts += ttl
		case LongOpen:
			f.Lasts = o.Duration/4 + time.Duration(r.Int64N(int64(o.Duration/2)))
		case Burst:
			f.Count = 200 + r.IntN(3000)
		case Pause:
			f.Lasts += pauseTakes
		case Scale, Terminate, CutWriters, Retry:
			f.Lasts = 0
		default: // as long as drawn
		}
		if f.OfNode() {
			f.Pick = r.IntN(cluster.Size)
			f.Lasts += time.Duration(r.IntN(5000)) * time.Millisecond // until the others notice
		}
		if o.Destinations > 1 {
			f.To = r.IntN(o.Destinations)
		}
		p.Faults = append(p.Faults, f)
	}
	return p
}

func settings(r *rand.Rand) Settings {
	return Settings{
		MaxInFlight: []int{20, 100, 500, 2000}[r.IntN(4)],
		Batch:       []int{1, 20, 100, 1000}[r.IntN(4)],
		Shards:      []int{1, 4, 16, 16}[r.IntN(4)],
		Delete:      r.IntN(4) == 0,
		Listen:      r.IntN(4) > 0,
		Doorbell:    r.IntN(2) == 0,
	}
}

// String returns the settings in the form of the relay's environment.
func (s Settings) String() string { return strings.Join(s.Environment(), " ") }

// Environment returns the settings as variables of the relay. The batch is never larger than the limit of rows in
// flight.
func (s Settings) Environment() []string {
	channel, settle := "outbox_messages", "mark"
	if !s.Listen {
		channel = ""
	}
	if s.Delete {
		settle = "delete"
	}
	return []string{
		fmt.Sprint("OUTBOX_MAX_IN_FLIGHT=", s.MaxInFlight),
		fmt.Sprint("OUTBOX_BATCH_SIZE=", min(s.Batch, s.MaxInFlight)),
		fmt.Sprint("OUTBOX_SHARDS=", s.Shards), "OUTBOX_SETTLE=" + settle, "OUTBOX_LISTEN_CHANNEL=" + channel,
	}
}

// OfDestination reports whether a fault concerns a single destination.
func (f Fault) OfDestination() bool { return f.Kind == Pause || f.Kind == Retry || f.OfLink() }

// OfLink reports whether a fault concerns a link to the broker.
func (f Fault) OfLink() bool { return slices.Contains(brokerCut, f.Kind) }

// OfNode reports whether a fault concerns a node of the broker.
func (f Fault) OfNode() bool {
	return f.Kind == MoveLeaders || slices.Contains(nodes, f.Kind) || f.Kind == LameDuck || f.Kind == Minority
}

// Unclean returns the number of times that the rows in flight at a replica may be delivered again because of a fault of
// a node.
func (f Fault) Unclean() int {
	switch f.Kind {
	case MoveLeaders:
		return 0
	case OneLeft, Minority:
		return 2 // a node that is lost, and a leader that comes back
	case Roll:
		return cluster.Size
	default:
		return 1
	}
}

// String describes the fault in one line.
func (f Fault) String() string {
	switch f.Kind {
	case Scale:
		return fmt.Sprintf("%s to %d", f.Kind, f.Count)
	case Burst:
		return fmt.Sprintf("%s of %d rows", f.Kind, f.Count)
	case CutWriters, Retry:
		return string(f.Kind)
	case Pause:
		return fmt.Sprintf("%s for %v", f.Kind, f.Lasts)
	case Terminate:
		return fmt.Sprintf("%s, pick %d", f.Kind, f.Pick)
	case MoveLeaders:
		return fmt.Sprintf("%s, pick %d", f.Kind, f.Pick)
	case CrashData, CrashBroker, LongOpen, Roll:
		return fmt.Sprintf("%s for %v", f.Kind, f.Lasts)
	default:
		return fmt.Sprintf("%s for %v, pick %d", f.Kind, f.Lasts, f.Pick)
	}
}
