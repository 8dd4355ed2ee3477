// Package config reads the relay's settings from the process environment and checks all of them before anything is
// started.
// The struct tags of [Config] and [Destination] describe the settings: the variable (without the prefix OUTBOX_), the
// default and the bounds; for which URLs it is (scheme: kafka, nats, amqp, or tls for those with TLS), with which
// values of another setting it has an effect (with), and which settings are then required (must, with | between
// alternatives); which other settings must be given with it (needs) or must not (not); and which settings are inherited
// together or not at all (group). The checks and the config command are derived from them. The meaning of each is in
// settings.txt, which is the help text.
package config

import (
	"log/slog"
	"strings"
	"time"
)

// Prefix starts the name of each variable.
const Prefix = "OUTBOX_"

// Config holds the settings from the environment, with the defaults filled in. It does not change once loaded.
type Config struct {
	Database Database
	Table    Table

	Names []string `envconfig:"DESTINATIONS"`
	// Destinations have these names. Without names there is one, called "default".
	Destinations []Destination

	BatchSize        int   `envconfig:"BATCH_SIZE" default:"1000" least:"1" most:"100000"`
	MaxInFlight      int   `envconfig:"MAX_IN_FLIGHT" default:"4096" least:"1" most:"1000000"`
	MaxInFlightBytes int64 `envconfig:"MAX_IN_FLIGHT_BYTES" default:"64MiB" least:"1KiB"`
	MaxRowBytes      int64 `envconfig:"MAX_ROW_BYTES" least:"1KiB"`
	// PollInterval is 0 if it was not given: one that was set is a promise, also if it is the default.
	PollInterval    time.Duration `envconfig:"POLL_INTERVAL" default:"50ms" least:"1ms"`
	ListenChannel   string        `envconfig:"LISTEN_CHANNEL" default:"outbox_messages" empty:"true"`
	Settle          string        `envconfig:"SETTLE" default:"mark" oneof:"mark,delete"`
	Shards          int           `envconfig:"SHARDS" default:"16" least:"1" most:"1024"`
	OwnerTTL        time.Duration `envconfig:"OWNER_TTL" default:"10s" least:"1s" most:"1d"`
	HTTPAddr        string        `envconfig:"HTTP_ADDR" default:":9630"`
	MetricsAddr     string        `envconfig:"METRICS_ADDR"`
	HTTPConfig      string        `envconfig:"HTTP_CONFIG"`
	StatusPage      string        `envconfig:"STATUS_PAGE" default:"on" oneof:"on,off"`
	PprofAddr       string        `envconfig:"PPROF_ADDR"`
	ShutdownTimeout time.Duration `envconfig:"SHUTDOWN_TIMEOUT" default:"25s" least:"1ms"`
	PruneAfter      time.Duration `envconfig:"PRUNE_AFTER" least:"1s"`
	TraceRows       bool          `envconfig:"TRACE_ROWS" default:"false"`
	LogLevel        slog.Level    `envconfig:"LOG_LEVEL" default:"info"`
	LogFormat       string        `envconfig:"LOG_FORMAT" default:"json" oneof:"json,text"`
	Pause           Switch        `envconfig:"PAUSE" live:"true" default:"false"`

	scope *scope
}

// Values of settings. Those of [Destination.PayloadEncoding] besides EncodingNone are named in package relay. Of the
// values of [Kafka.SASLMechanism], these need no password: one uses tokens, the other AWS credentials.
const (
	SettleDelete   = "delete"
	StatusPageOff  = "off"
	OnFailedBlock  = "block"
	TimestampNow   = "now"
	EncodingNone   = "none"
	MechanismOAuth = "OAUTHBEARER"
	MechanismIAM   = "AWS_MSK_IAM"
)

// Database says how to reach PostgreSQL.
type Database struct {
	URL Secret `envconfig:"DATABASE_URL" secret:"database"`
	// DirectURL equals URL if it is not given.
	DirectURL Secret `envconfig:"DATABASE_DIRECT_URL" secret:"database"`
}

// Table says which table is the outbox and what its columns are called.
type Table struct {
	Name string `envconfig:"TABLE" default:"outbox_messages"`
	// Columns maps the relay's names of columns to the table's, for configured columns.
	Columns map[string]string `envconfig:"COLUMNS"`
	// Key is column:NAME, header:NAME, payload:a.b, topic or none, or empty for the column key, if the table has one.
	Key string `envconfig:"KEY"`
}

// Column returns the table's name for a column by the relay's name, whether or not the table has it.
func (t Table) Column(ours string) string {
	if theirs, ok := t.Columns[ours]; ok {
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
	Name string
	// Topics are patterns in which * stands for any text; a pattern that begins with ! excludes topics. Empty means
	// every topic.
	Topics []string `envconfig:"TOPICS" only:"destination"`
	// Columns is nil for a destination that keeps its state in the columns of the table.
	Columns StateColumns `envconfig:"COLUMNS" only:"destination"`
	// FailedOf and RelayedOf name another destination; at most one of them is set, and then Columns is set too.
	FailedOf   string `envconfig:"FAILED_OF" only:"destination"`
	RelayedOf  string `envconfig:"RELAYED_OF" only:"destination"`
	Required   bool   `envconfig:"REQUIRED" only:"destination" default:"true"`
	PublishURL Secret `envconfig:"PUBLISH_URL" secret:"broker"`
	Topic      string `envconfig:"TOPIC" default:"{topic}"`
	Profile    string `envconfig:"PROFILE" default:"plain" oneof:"plain,cloudevents,debezium,phoenix_micro"`
	// CloudEventsSource is empty unless the profile is cloudevents and the setting was given.
	CloudEventsSource  string `envconfig:"CLOUDEVENTS_SOURCE" with:"PROFILE=cloudevents"`
	DebeziumTombstones bool   `envconfig:"DEBEZIUM_TOMBSTONES" default:"false" with:"PROFILE=debezium"`
	PayloadEncoding    string `envconfig:"PAYLOAD_ENCODING" default:"none" oneof:"none,base64,hex"`
	AMQPExchange       string `envconfig:"AMQP_EXCHANGE" empty:"true" scheme:"amqp"`

	AMQPMechanism string `envconfig:"AMQP_SASL_MECHANISM" scheme:"amqp" oneof:"PLAIN,AMQPLAIN,EXTERNAL"`

	AMQPMandatory  bool          `envconfig:"AMQP_MANDATORY" default:"true" scheme:"amqp"`
	AMQPOAuth      OAuth         `prefix:"AMQP_OAUTH_" scheme:"amqp" group:"amqp-oauth"`
	AMQPManagement Secret        `envconfig:"AMQP_MANAGEMENT_URL" secret:"broker" scheme:"amqp"`
	MaxAttempts    int           `envconfig:"MAX_ATTEMPTS" default:"5" least:"1" most:"1000000"`
	BackoffMin     time.Duration `envconfig:"BACKOFF_MIN" default:"500ms" least:"1ms"`
	BackoffMax     time.Duration `envconfig:"BACKOFF_MAX" default:"60s" least:"1ms"`
	PublishTimeout time.Duration `envconfig:"PUBLISH_TIMEOUT" default:"10s" least:"1ms"`
	OnFailed       string        `envconfig:"ON_FAILED" default:"continue" oneof:"continue,block"`
	Limits
	TLS   TLS
	Kafka Kafka
	NATS  NATS

	// Broker is the parsed publish URL at the time of loading, without user and password.
	Broker Broker

	scope *scope
}

// Limits bound a destination's use of the relay, of its broker and of time.
type Limits struct {
	// MaxAge is 0 for any age.
	MaxAge time.Duration `envconfig:"MAX_AGE" least:"1ms"`
	Rate   Rate          `envconfig:"RATE"`
	// MaxInFlight and MaxInFlightBytes are 0 for an equal share of what the other destinations leave of the common
	// bounds.
	MaxInFlight      int    `envconfig:"MAX_IN_FLIGHT" only:"destination" least:"1" most:"1000000"`
	MaxInFlightBytes int64  `envconfig:"MAX_IN_FLIGHT_BYTES" only:"destination" least:"1KiB"`
	Pause            Switch `envconfig:"PAUSE" live:"true" only:"destination" default:"false"`
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

// TimestampColumn returns the column that gives records their time, "" for none.
func (k Kafka) TimestampColumn() string {
	_, column, _ := strings.Cut(k.Timestamp, ":")
	return column
}

// NATS says how to publish to a NATS server, and holds at most one kind of credentials for it.
type NATS struct {
	Stream string `envconfig:"NATS_STREAM" scheme:"nats"`
	// MsgIDPrefix is empty unless it was given.
	MsgIDPrefix string `envconfig:"NATS_MSG_ID_PREFIX" scheme:"nats"`
	Domain      string `envconfig:"NATS_JS_DOMAIN" scheme:"nats"`
	InboxPrefix string `envconfig:"NATS_INBOX_PREFIX" scheme:"nats"`
	TLSFirst    bool   `envconfig:"NATS_TLS_FIRST" default:"false" scheme:"nats"`

	Creds Secret `envconfig:"NATS_CREDS" secret:"true" scheme:"nats" group:"nats"`
	Nkey  Secret `envconfig:"NATS_NKEY" secret:"true" scheme:"nats" group:"nats" not:"NATS_CREDS"`
	Token Secret `envconfig:"NATS_TOKEN" secret:"true" scheme:"nats" group:"nats" not:"NATS_CREDS,NATS_NKEY"`
}
