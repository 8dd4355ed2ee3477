package config

import (
	"net/url"
	"strings"
	"unicode"
)

// applyProfile fills in what a destination's profile has as a default of its own, and checks what only
// some of the profiles use.
func applyProfile(d *Destination, s *scope) {
	fallback := func(key string, into *string, value string) {
		if o := s.origins[key]; !o.given {
			o.text, *into = value, value
			s.origins[key] = o
		}
	}
	switch d.Profile {
	case ProfileDebezium:
		fallback("TOPIC", &d.Topic, "outbox.event.{topic}")
	case ProfilePhoenixMicro:
		if b, err := ParseBroker(d.PublishURL.value); err == nil && b.Family == FamilyAMQP {
			fallback("AMQP_EXCHANGE", &d.AMQPExchange, "phoenix_micro")
		}
	}
	if source := d.CloudEventsSource; source != "" {
		if _, err := url.Parse(source); err != nil || strings.ContainsFunc(source,
			func(r rune) bool { return r <= ' ' || r == '"' || unicode.IsControl(r) }) {
			s.bad("CLOUDEVENTS_SOURCE", "is no URI; write one without blanks, such as /shop/orders or https://shop.example/orders")
		}
	}
	for _, only := range []struct {
		key, profile string
		given        bool
	}{
		{"CLOUDEVENTS_SOURCE", ProfileCloudEvents, d.CloudEventsSource != ""},
		{"DEBEZIUM_TOMBSTONES", ProfileDebezium, d.DebeziumTombstones},
	} {
		if only.given && !s.origins[only.key].inherited && d.Profile != only.profile {
			s.bad(only.key, "has no effect without %s=%s; set that, or remove the setting", s.origins["PROFILE"].variable, only.profile)
		}
	}
}

// Preferred returns the columns that are taken for ours where the table has them and OUTBOX_COLUMNS
// does not say otherwise: the names in Debezium's outbox layout, when a destination has that profile.
func (c *Config) Preferred() map[string]string {
	for _, d := range c.Destinations {
		if d.Profile == ProfileDebezium {
			return map[string]string{"topic": "aggregatetype", "key": "aggregateid"}
		}
	}
	return nil
}
