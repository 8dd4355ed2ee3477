// Package config reads the relay's settings from the process environment and checks all of them before anything is
// started.
// The struct tags of [Config] and [Destination], and of those of package relay that are embedded in them, describe the
// settings: the variable (without the prefix OUTBOX_), the
// default and the bounds; for which URLs it is (scheme: kafka, nats, amqp, or tls for those with TLS), with which
// values of another setting it has an effect (with), and which settings are then required (must, with | between
// alternatives); which other settings must be given with it (needs) or must not (not); and which settings are inherited
// together or not at all (group). The checks and the config command are derived from them. The meaning of each is in
// settings.txt, which is the help text.
package config

import (
	"log/slog"
	"time"

	"github.com/outbox-relay/outbox-relay/relay"
)

// Prefix starts the name of each variable.
const Prefix = "OUTBOX_"

// Config holds the settings from the environment, with the defaults filled in. It does not change once loaded.
type Config struct {
	Database Database

	Names []string `envconfig:"DESTINATIONS"`
	// Destinations have these names. Without names there is one, called "default".
	Destinations []Destination

	// What the relay itself is configured with. Destinations and the parts that it works with are still missing.
	relay.Config

	HTTPAddr    string        `envconfig:"HTTP_ADDR" default:":9630"`
	MetricsAddr string        `envconfig:"METRICS_ADDR"`
	HTTPConfig  string        `envconfig:"HTTP_CONFIG"`
	StatusPage  bool          `envconfig:"STATUS_PAGE" default:"on" oneof:"off,on"`
	PprofAddr   string        `envconfig:"PPROF_ADDR"`
	PruneAfter  time.Duration `envconfig:"PRUNE_AFTER" least:"1s"`
	LogLevel    slog.Level    `envconfig:"LOG_LEVEL" default:"info"`
	LogFormat   string        `envconfig:"LOG_FORMAT" default:"json" oneof:"json,text"`
	Pause       Switch        `envconfig:"PAUSE" live:"true" default:"false"`

	scope *scope
}

// Values of settings. Of the values of [Kafka.SASLMechanism], these need no password: one uses tokens, the other AWS
// credentials.
const (
	TimestampNow   = "now"
	MechanismOAuth = "OAUTHBEARER"
	MechanismIAM   = "AWS_MSK_IAM"
)

// Database says how to reach PostgreSQL.
type Database struct {
	URL Secret `envconfig:"DATABASE_URL" secret:"database"`
	// DirectURL equals URL if it is not given.
	DirectURL Secret `envconfig:"DATABASE_DIRECT_URL" secret:"database"`
}

// Column returns the table's name for a column by the relay's name, whether or not the table has it.
func (c *Config) Column(ours string) string {
	if theirs, ok := c.Columns[ours]; ok {
		return theirs
	}
	if ours == "order" {
		return "seq"
	}
	return ours
}

// A Destination is one broker and how to publish to it. Each of its settings may be given for the destination alone or,
// as the fallback, for all destinations.
type Destination struct {
	Required   bool   `envconfig:"REQUIRED" only:"destination" default:"true"`
	PublishURL Secret `envconfig:"PUBLISH_URL" secret:"broker"`

	// What the relay is configured with for the destination, except for the parts that it works with.
	*relay.Destination

	AMQPExchange string `envconfig:"AMQP_EXCHANGE" empty:"true" scheme:"amqp"`

	AMQPMechanism string `envconfig:"AMQP_SASL_MECHANISM" scheme:"amqp" oneof:"PLAIN,AMQPLAIN,EXTERNAL"`

	AMQPMandatory  bool   `envconfig:"AMQP_MANDATORY" default:"true" scheme:"amqp"`
	AMQPOAuth      OAuth  `prefix:"AMQP_OAUTH_" scheme:"amqp" group:"amqp-oauth"`
	AMQPManagement Secret `envconfig:"AMQP_MANAGEMENT_URL" secret:"broker" scheme:"amqp"`
	Pause          Switch `envconfig:"PAUSE" live:"true" only:"destination" default:"false"`
	TLS            TLS
	Kafka          Kafka
	NATS           NATS

	// Broker is the parsed publish URL at the time of loading, without user and password.
	Broker Broker

	scope *scope
}

// TLS holds PEM text for the connection to a broker with TLS. Empty means the system's roots and no client certificate.
type TLS struct {
	CA         Secret `envconfig:"TLS_CA" secret:"true" scheme:"tls"`
	Cert       Secret `envconfig:"TLS_CERT" secret:"true" scheme:"tls" needs:"TLS_KEY"`
	Key        Secret `envconfig:"TLS_KEY" secret:"true" scheme:"tls" needs:"TLS_CERT"`
	ServerName string `envconfig:"TLS_SERVER_NAME" scheme:"tls"`
}

// Kafka says how to write to Kafka and how to log in there.
type Kafka struct {
	Compression     string `envconfig:"KAFKA_COMPRESSION" default:"none" oneof:"none,gzip,snappy,lz4,zstd" scheme:"kafka"`
	Partitioner     string `envconfig:"KAFKA_PARTITIONER" default:"murmur2" oneof:"murmur2,crc32,fnv1a" scheme:"kafka"`
	Timestamp       string `envconfig:"KAFKA_TIMESTAMP" default:"insert" scheme:"kafka"`
	PartitionHeader string `envconfig:"KAFKA_PARTITION_HEADER" scheme:"kafka"`

	SASLMechanism string `envconfig:"KAFKA_SASL_MECHANISM" scheme:"kafka" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM"`

	Login `with:"KAFKA_SASL_MECHANISM=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" scheme:"kafka"`

	AWSRegion string `envconfig:"KAFKA_AWS_REGION" scheme:"kafka" with:"KAFKA_SASL_MECHANISM=AWS_MSK_IAM"`
	OAuth     OAuth  `prefix:"KAFKA_OAUTH_" scheme:"kafka" group:"kafka-oauth" with:"KAFKA_SASL_MECHANISM=OAUTHBEARER"`
	// OAuthExtensions are extensions of the mechanism, not of the token.
	OAuthExtensions []string `envconfig:"KAFKA_OAUTH_EXTENSIONS" scheme:"kafka" with:"KAFKA_SASL_MECHANISM=OAUTHBEARER"`
}

// A Login is given with the mechanisms that have passwords, and only with these.
type Login struct {
	Username Secret `envconfig:"KAFKA_SASL_USERNAME" secret:"true" must:"KAFKA_SASL_USERNAME"`
	Password Secret `envconfig:"KAFKA_SASL_PASSWORD" secret:"true" must:"KAFKA_SASL_PASSWORD"`
}

// An OAuth says where the tokens for a login come from: they are given, or requested with client credentials, whose
// secret may be an assertion. On Kafka the mechanism is OAUTHBEARER; on RabbitMQ the token replaces the password.
type OAuth struct {
	Token           Secret `envconfig:"TOKEN" secret:"true" must:"TOKEN|TOKEN_URL" not:"TOKEN_URL,CLIENT_ID,CLIENT_SECRET,CLIENT_ASSERTION,SCOPE"`
	TokenURL        Secret `envconfig:"TOKEN_URL" secret:"broker" needs:"CLIENT_SECRET|CLIENT_ASSERTION"`
	ClientID        Secret `envconfig:"CLIENT_ID" secret:"true" needs:"TOKEN|TOKEN_URL"`
	ClientSecret    Secret `envconfig:"CLIENT_SECRET" secret:"true" needs:"CLIENT_ID,TOKEN|TOKEN_URL" not:"CLIENT_ASSERTION"`
	ClientAssertion Secret `envconfig:"CLIENT_ASSERTION" secret:"true" needs:"TOKEN|TOKEN_URL"`
	Scope           string `envconfig:"SCOPE" needs:"TOKEN|TOKEN_URL"`
}

// IsSet reports whether there is a source of tokens.
func (o OAuth) IsSet() bool { return o.Token.IsSet() || o.TokenURL.IsSet() }

// NATS says how to publish to a NATS server, and holds at most one kind of credentials for it.
type NATS struct {
	Stream      string `envconfig:"NATS_STREAM" scheme:"nats"`
	Domain      string `envconfig:"NATS_JS_DOMAIN" scheme:"nats"`
	InboxPrefix string `envconfig:"NATS_INBOX_PREFIX" scheme:"nats"`
	TLSFirst    bool   `envconfig:"NATS_TLS_FIRST" default:"false" scheme:"nats,tls"`

	Creds Secret `envconfig:"NATS_CREDS" secret:"true" scheme:"nats" group:"nats"`
	Nkey  Secret `envconfig:"NATS_NKEY" secret:"true" scheme:"nats" group:"nats" not:"NATS_CREDS"`
	Token Secret `envconfig:"NATS_TOKEN" secret:"true" scheme:"nats" group:"nats" not:"NATS_CREDS,NATS_NKEY"`
}
