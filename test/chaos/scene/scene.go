// Package scene defines the destinations to which the relays of a run publish, and where the table keeps the state of
// the rows for each.
package scene

import (
	"fmt"
	"slices"
	"strings"
)

// The scenes.
const (
	One          = "one"          // one destination for all rows
	Destinations = "destinations" // six destinations that cover all relations between destinations
)

// Names are the names of all scenes.
var Names = []string{One, Destinations}

// A Scene is the part of the relays' configuration in a run that concerns destinations.
type Scene struct {
	Topics       []string // topics of the rows that the broker has from the beginning
	Absent       []string // topics of rows that are made later
	Destinations []Destination
}

// A Destination is a destination of a scene.
type Destination struct {
	Name      string // "" for the only one, whose variables contain no name
	Patterns  string // patterns of the rows' topics that it takes; "" for all
	Topic     string // template of the topic under which it publishes
	Columns   string // prefix of the names of its columns; "" for the table's own
	Brief     bool   // it has a column for relayed_at and no others
	FailedOf  string
	RelayedOf string
	takes     func(topic string) bool
}

// absent is the number of topics that are made later where there are several destinations, so that there are many
// causes of trouble at once.
const absent = 20

// New returns a scene whose topics begin with the given name.
func New(scene, name string) *Scene {
	s := &Scene{Topics: []string{name + "-first", name + "-second"}, Absent: []string{name + "-absent"}}
	if scene == One {
		s.Destinations = []Destination{{Topic: "{topic}"}}
		return s
	}
	s.Absent = nil
	for i := range absent {
		s.Absent = append(s.Absent, fmt.Sprintf("%s-absent-%02d", name, i))
	}
	first := func(topic string) bool { return topic == s.Topics[0] || slices.Contains(s.Absent, topic) }
	s.Destinations = []Destination{
		{Name: "orders", Patterns: s.Topics[0] + "," + name + "-absent-*", Topic: "{topic}", takes: first},
		{Name: "rest", Topic: "{topic}", takes: func(topic string) bool { return !first(topic) }},
		{Name: "audit", Topic: "{topic}-audit", Columns: "audit_"},
		{Name: "dead", Topic: name + "-dead", Columns: "dead_", FailedOf: "orders"},
		{Name: "buried", Topic: name + "-buried", Columns: "buried_", FailedOf: "audit"},
		{Name: "notice", Topic: name + "-notice", Columns: "notice_", Brief: true, RelayedOf: "orders"},
	}
	return s
}

// Several reports whether there are several destinations.
func (s *Scene) Several() bool { return len(s.Destinations) > 1 }

// Environment returns the variables of a relay that reaches the broker of each destination at a separate address and
// looks into a folder for files that pause destinations. The function url turns an address into OUTBOX_PUBLISH_URL.
func (s *Scene) Environment(address func(destination int) string, url func(address string) string,
	pauses string,
) []string {
	if !s.Several() {
		return []string{"OUTBOX_PUBLISH_URL=" + url(address(0))}
	}
	var names, all []string
	for i, d := range s.Destinations {
		names = append(names, d.Name)
		set := func(variable, value string) {
			if value != "" {
				all = append(all, "OUTBOX_DESTINATION_"+strings.ToUpper(d.Name)+"_"+variable+"="+value)
			}
		}
		set("PUBLISH_URL", url(address(i)))
		set("PAUSE_FILE", d.PauseFile(pauses))
		set("TOPICS", d.Patterns)
		set("TOPIC", d.Topic)
		set("COLUMNS", d.ownColumns())
		set("FAILED_OF", d.FailedOf)
		set("RELAYED_OF", d.RelayedOf)
	}
	return append(all, "OUTBOX_DESTINATIONS="+strings.Join(names, ","))
}

// Takes reports whether the rows of a topic go to a destination.
func (d *Destination) Takes(topic string) bool { return d.takes == nil || d.takes(topic) }

// Publishes returns the topic under which a destination publishes the rows of a topic.
func (d *Destination) Publishes(topic string) string {
	return strings.ReplaceAll(d.Topic, "{topic}", topic)
}

// Topics returns all topics under which a destination publishes, given the topics of the rows.
func (d *Destination) Topics(rows []string) []string {
	var all []string
	for _, topic := range rows {
		if to := d.Publishes(topic); d.Takes(topic) && !slices.Contains(all, to) {
			all = append(all, to)
		}
	}
	return all
}

// Origin reports whether a destination takes rows by their topics, and not because they were relayed or failed at
// another one.
func (d *Destination) Origin() bool { return d.FailedOf == "" && d.RelayedOf == "" }

// Share returns the number of rows that may be in flight for one of the destinations.
func (s *Scene) Share(maxInFlight int) int { return max(1, maxInFlight/len(s.Destinations)) }
