package config

import (
	"cmp"
	"slices"
	"strings"
)

// fieldKeys are the variables for the fields that libraries name in their errors (package setting), without the prefix.
// A field that has the same name in [Config] or [Destination] needs none. A key that ends with _FILE shows the usual
// form of a setting that was not given. The first key is meant unless the destination has any of those after it. The
// text after = is the value.
var fieldKeys = map[string]string{
	// Of every publisher.
	"TLS.RootCAs":      "TLS_CA_FILE",
	"TLS.Certificates": "TLS_CERT_FILE TLS_CERT TLS_KEY",
	"TLS.ServerName":   "TLS_SERVER_NAME",
	// kafka.Config
	"Brokers":        "PUBLISH_URL",
	"SASL.Mechanism": "KAFKA_SASL_MECHANISM",
	"SASL.Credentials": "KAFKA_SASL_MECHANISM KAFKA_SASL_USERNAME KAFKA_SASL_PASSWORD KAFKA_OAUTH_TOKEN " +
		"KAFKA_OAUTH_CLIENT_ID KAFKA_OAUTH_CLIENT_SECRET KAFKA_OAUTH_CLIENT_ASSERTION",
	// nats.Config
	"Servers": "PUBLISH_URL",
	"Auth":    "PUBLISH_URL NATS_CREDS NATS_NKEY NATS_TOKEN",
	// amqp.Config
	"URL":       "PUBLISH_URL",
	"Mechanism": "AMQP_SASL_MECHANISM",
	"Tokens": "AMQP_OAUTH_TOKEN_FILE AMQP_OAUTH_TOKEN AMQP_OAUTH_CLIENT_ID AMQP_OAUTH_CLIENT_SECRET " +
		"AMQP_OAUTH_CLIENT_ASSERTION",
	"Exchange":   "AMQP_EXCHANGE",
	"Unrouted":   "AMQP_MANDATORY=false",
	"Management": "AMQP_MANAGEMENT_URL",
	// relay.Config and relay.Destination
	"BlockFailed":  "ON_FAILED=block",
	"TimeColumn":   "KAFKA_TIMESTAMP",
	"Key":          "KEY",
	"Destinations": "DESTINATIONS",
	"Delete":       "SETTLE=delete",
	"Direct":       "DATABASE_DIRECT_URL",
	"Pool":         "DATABASE_URL",
}

// settingName returns the user's name of a field of everything that is made from the configuration, or "".
func (s *scope) settingName(field string) string {
	first, others, _ := strings.Cut(s.keyOf(field), " ")
	if first == "" {
		return ""
	}
	var names []string
	for _, key := range strings.Fields(others) {
		if s.at(key).given {
			names = append(names, s.nameOf(key))
		}
	}
	key, _, _ := strings.Cut(first, "=")
	return cmp.Or(strings.Join(names, " and "), s.nameOf(key)+strings.TrimPrefix(first, key))
}

// keyOf returns the keys for a field as fieldKeys has them, or "".
func (s *scope) keyOf(field string) string {
	same := func(s Setting) bool { return s.field == field }
	if i := slices.IndexFunc(s.loader.settings, same); i >= 0 && fieldKeys[field] == "" {
		return s.loader.settings[i].key
	}
	return fieldKeys[field]
}

// nameOf returns the name under which a setting was found, with _FILE if it was given as a file. A setting that was not
// given has its most specific name; then a key with _FILE asks for this form.
func (s *scope) nameOf(key string) string {
	switch o := s.at(strings.TrimSuffix(key, fileSuffix)); {
	case o.key == "", o.inherited && !o.PerDestination: // the direct URL is inherited from the other one
		return Prefix + key
	case !o.given:
		return o.variable + strings.TrimPrefix(key, o.key)
	case o.path != "":
		return o.variable + fileSuffix
	default:
		return o.variable
	}
}
