package config

import (
	"net/url"
	"strings"
	"unicode"

	"github.com/outbox-relay/outbox-relay/internal/profile"
)

// applyProfile fills in the defaults of a destination's profile, and checks settings that only some of the profiles use.
func applyProfile(d *Destination, s *scope) {
	fallback := func(key string, into *string, value string) {
		if o := s.origins[key]; !o.given {
			o.text, *into = value, value
			s.origins[key] = o
		}
	}
	fallback("TOPIC", &d.Topic, profile.Topic(d.Profile))
	fallback("AMQP_EXCHANGE", &d.AMQPExchange, profile.Exchange(d.Profile, d.Broker.Protocol))
	if source := d.CloudEventsSource; source != "" {
		if _, err := url.Parse(source); err != nil || strings.ContainsFunc(source,
			func(r rune) bool { return r <= ' ' || r == '"' || unicode.IsControl(r) }) {
			s.bad("CLOUDEVENTS_SOURCE", "is not a URI; write one without spaces, such as /shop/orders or https://shop.example/orders")
		}
	}
	for _, only := range []struct {
		key, profile string
		given        bool
	}{
		{"CLOUDEVENTS_SOURCE", profile.CloudEvents, d.CloudEventsSource != ""},
		{"DEBEZIUM_TOMBSTONES", profile.Debezium, d.DebeziumTombstones},
	} {
		if only.given && !s.origins[only.key].inherited && d.Profile != only.profile {
			s.bad(only.key, "has no effect without %s=%s; set that, or remove the setting", s.origins["PROFILE"].variable, only.profile)
		}
	}
}
