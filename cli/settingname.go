package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/outbox-relay/outbox-relay/config"
	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// settingKeys are the variables for the fields that libraries name in their errors ([setting.Names]), without the
// prefix. A key that ends with _FILE shows the usual form of a setting that was not given. Of keys separated by |, one
// is chosen. If the destination has any of the keys after ?, these are meant instead. The text after = is the value.
var settingKeys = map[string]string{
	// Of every publisher.
	"TLS.RootCAs":      "TLS_CA_FILE",
	"TLS.Certificates": "TLS_CERT_FILE TLS_KEY_FILE",
	"TLS.ServerName":   "TLS_SERVER_NAME",
	// kafka.Config
	"Brokers":        "PUBLISH_URL",
	"SASL.Mechanism": "KAFKA_SASL_MECHANISM",
	"SASL.Credentials": "KAFKA_SASL_MECHANISM ? KAFKA_SASL_USERNAME KAFKA_SASL_PASSWORD KAFKA_OAUTH_TOKEN " +
		"KAFKA_OAUTH_CLIENT_ID KAFKA_OAUTH_CLIENT_SECRET KAFKA_OAUTH_CLIENT_ASSERTION",
	"IAM.Region": "KAFKA_AWS_REGION",
	// nats.Config
	"Servers":          "PUBLISH_URL",
	"Auth":             "PUBLISH_URL|NATS_CREDS_FILE|NATS_NKEY|NATS_TOKEN ? NATS_CREDS NATS_NKEY NATS_TOKEN",
	"Auth.Credentials": "NATS_CREDS_FILE",
	"TLSFirst":         "NATS_TLS_FIRST",
	"InboxPrefix":      "NATS_INBOX_PREFIX",
	"Domain":           "NATS_JS_DOMAIN",
	"Stream":           "NATS_STREAM",
	// amqp.Config
	"URL":       "PUBLISH_URL",
	"Mechanism": "AMQP_SASL_MECHANISM",
	"Tokens": "AMQP_OAUTH_TOKEN_FILE ? AMQP_OAUTH_TOKEN AMQP_OAUTH_CLIENT_ID AMQP_OAUTH_CLIENT_SECRET " +
		"AMQP_OAUTH_CLIENT_ASSERTION",
	"Exchange":   "AMQP_EXCHANGE",
	"Unrouted":   "AMQP_MANDATORY=false",
	"Management": "AMQP_MANAGEMENT_URL",
	// relay.Destination
	"BlockFailed":     "ON_FAILED=block",
	"FailedOf":        "FAILED_OF",
	"Optional":        "REQUIRED=false",
	"MaxAge":          "MAX_AGE",
	"TimeColumn":      "KAFKA_TIMESTAMP",
	"PayloadEncoding": "PAYLOAD_ENCODING",
	"Topic":           "TOPIC",
	"DedupPrefix":     "NATS_MSG_ID_PREFIX",
	// relay.Config
	"Table":         "TABLE",
	"Columns":       "COLUMNS",
	"Key":           "KEY",
	"Delete":        "SETTLE=delete",
	"Direct":        "DATABASE_DIRECT_URL",
	"Pool":          "DATABASE_URL",
	"Shards":        "SHARDS",
	"ListenChannel": "LISTEN_CHANNEL",
	"MaxRowBytes":   "MAX_ROW_BYTES",
	"MaxInFlight":   "MAX_IN_FLIGHT",
}

// settingNames returns the user's names of the fields of everything that is made from a configuration. d may be nil for
// fields that belong to no destination.
func settingNames(c *config.Config, d *config.Destination) setting.Names {
	return func(field string) string {
		keys, value, assigned := strings.Cut(settingKeys[field], "=")
		keys, instead, _ := strings.Cut(keys, " ? ")
		if d != nil {
			given := slices.DeleteFunc(strings.Fields(instead), func(key string) bool { return !d.Given(key) })
			keys = cmp.Or(strings.Join(given, " "), keys)
		}
		separator, conjunction := " ", " and "
		if strings.Contains(keys, "|") {
			separator, conjunction = "|", " or "
		}
		if keys == "" {
			return ""
		}
		var names []string
		for key := range strings.SplitSeq(keys, separator) {
			name := ""
			if d != nil {
				name = d.Variable(key)
			}
			names = append(names, cmp.Or(name, c.Variable(key), config.Prefix+key))
		}
		text := strings.Join(names, conjunction)
		if assigned {
			text += "=" + value
		}
		return text
	}
}
