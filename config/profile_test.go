package config

import (
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/profile"
)

func TestProfileDefaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env                     []string
		topic, exchange, source string
	}{
		"plain":            {nil, "{topic}", "", ""},
		"debezium":         {[]string{"OUTBOX_PROFILE=debezium"}, "outbox.event.{topic}", "", ""},
		"debezium, topic":  {[]string{"OUTBOX_PROFILE=debezium", "OUTBOX_TOPIC={topic}"}, "{topic}", "", ""},
		"phoenix on kafka": {[]string{"OUTBOX_PROFILE=phoenix_micro"}, "{topic}", "", ""},
		"phoenix on amqp": {
			[]string{"OUTBOX_PROFILE=phoenix_micro", "OUTBOX_PUBLISH_URL=amqp://h"},
			"{topic}",
			"phoenix_micro", "",
		},
		"phoenix, exchange": {
			[]string{"OUTBOX_PROFILE=phoenix_micro", "OUTBOX_PUBLISH_URL=amqp://h", "OUTBOX_AMQP_EXCHANGE="},
			"{topic}", "", "",
		},
		"cloudevents": {[]string{"OUTBOX_PROFILE=cloudevents", "OUTBOX_TABLE=shop.out box"}, "{topic}", "", ""},
		"source": {
			[]string{"OUTBOX_PROFILE=cloudevents", "OUTBOX_CLOUDEVENTS_SOURCE=https://shop/orders"},
			"{topic}", "",
			"https://shop/orders",
		},
	} {
		cfg, err := parse(append(append([]string{}, minimal...), c.env...), true)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cfg.Destinations[0]; d.Topic != c.topic || d.AMQPExchange != c.exchange || d.CloudEventsSource != c.source {
			t.Errorf("%s: topic %q, exchange %q, source %q", name, d.Topic, d.AMQPExchange, d.CloudEventsSource)
		}
	}
}

// A destination may have a profile of its own, and may inherit settings that the profile does not use.
func TestProfilePerDestination(t *testing.T) {
	t.Parallel()
	cfg := load(t, "OUTBOX_DESTINATIONS=a,b", "OUTBOX_DESTINATION_A_PROFILE=debezium",
		"OUTBOX_DESTINATION_B_PROFILE=cloudevents",
		"OUTBOX_DESTINATION_A_TOPICS=a",
		"OUTBOX_CLOUDEVENTS_SOURCE=/shop", "OUTBOX_COLUMNS=header.eventType:type,order:seq")
	a, b := cfg.Destinations[0], cfg.Destinations[1]
	if a.WireFormat != profile.Debezium || a.Topic != "outbox.event.{topic}" || b.WireFormat != profile.CloudEvents ||
		b.Topic != "{topic}" ||
		b.CloudEventsSource != "/shop" {
		t.Errorf("%+v\n%+v", a, b)
	}
}
