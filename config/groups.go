package config

import "strings"

// A Group is a part of the settings under a heading of its own, in the help text and in docs/settings.md.
type Group struct {
	Name     string // as in "help settings kafka"
	Title    string
	Settings []Setting
}

// Groups divides the settings by what they are about. Each setting is in exactly one group, and a group keeps the order of [Settings].
func Groups() []Group {
	groups := []Group{
		{Name: "table", Title: "Database and table"},
		{Name: "destinations", Title: "Destinations and messages"},
		{Name: "limits", Title: "Retries, limits and pauses"},
		{Name: "tls", Title: "TLS for the broker"},
		{Name: "kafka", Title: "Kafka"},
		{Name: "nats", Title: "NATS"},
		{Name: "rabbitmq", Title: "RabbitMQ"},
		{Name: "http", Title: "HTTP, logs and traces"},
	}
	for _, setting := range Settings() {
		name := setting.group()
		for i := range groups {
			if groups[i].Name == name {
				groups[i].Settings = append(groups[i].Settings, setting)
			}
		}
	}
	return groups
}

// group returns the name of a setting's group.
func (s Setting) group() string {
	switch first, _, _ := strings.Cut(s.key, "_"); first {
	case "KAFKA", "NATS", "TLS":
		return strings.ToLower(first)
	case "AMQP":
		return "rabbitmq"
	case "DATABASE":
		return "table"
	}
	switch s.key {
	case "COLUMNS":
		if s.named {
			return "destinations"
		}
		return "table"
	case "TABLE", "KEY", "SETTLE", "PRUNE_AFTER", "SHARDS", "OWNER_TTL", "LISTEN_CHANNEL", "POLL_INTERVAL":
		return "table"
	case "HTTP_ADDR", "METRICS_ADDR", "HTTP_CONFIG", "STATUS_PAGE", "PPROF_ADDR", "LOG_LEVEL", "LOG_FORMAT", "TRACE_ROWS":
		return "http"
	case "BATCH_SIZE", "MAX_IN_FLIGHT", "MAX_IN_FLIGHT_BYTES", "MAX_ROW_BYTES", "MAX_ATTEMPTS", "BACKOFF_MIN", "BACKOFF_MAX",
		"PUBLISH_TIMEOUT", "ON_FAILED", "MAX_AGE", "RATE", "PAUSE", "SHUTDOWN_TIMEOUT":
		return "limits"
	case "DESTINATIONS", "TOPICS", "FAILED_OF", "RELAYED_OF", "REQUIRED", "PUBLISH_URL", "TOPIC", "PROFILE", "CLOUDEVENTS_SOURCE",
		"DEBEZIUM_TOMBSTONES", "PAYLOAD_ENCODING":
		return "destinations"
	}
	return ""
}
