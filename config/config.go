// Package config reads the relay's settings from the process environment and checks them all before
// anything is started.
//
// The struct tags of [Config] and [Destination] are the one place where a setting is described: its
// variable (without the prefix OUTBOX_), its default, its bounds and its meaning. The checks, the help
// text, the table in docs/settings.md and the config command all come from them.
package config

import (
	"log/slog"
	"strings"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/rowkey"
)

// Prefix starts the name of each variable.
const Prefix = "OUTBOX_"

// Config is what the environment says, with the defaults filled in. It is not changed once loaded.
type Config struct {
	Database Database
	Table    Table

	// Destinations is never empty: without OUTBOX_DESTINATIONS it holds one, called "default".
	Destinations []Destination `envconfig:"DESTINATIONS" unset:"one, called default" desc:"names of several destinations, such as orders,audit; each takes the settings marked * as OUTBOX_DESTINATION_ORDERS_… and falls back to the one written here"`

	BatchSize        int           `envconfig:"BATCH_SIZE" default:"1000" min:"1" max:"100000" desc:"rows per read and per publish"`
	MaxInFlight      int           `envconfig:"MAX_IN_FLIGHT" default:"4096" min:"1" max:"1000000" desc:"rows read and not yet settled, over all destinations; also the bound on duplicates after a crash"`
	MaxInFlightBytes int64         `envconfig:"MAX_IN_FLIGHT_BYTES" default:"64MiB" min:"1KiB" desc:"the same bound in payload bytes"`
	MaxRowBytes      int64         `envconfig:"MAX_ROW_BYTES" unset:"64MiB, or the bytes in flight if more" min:"1KiB" desc:"a row with a larger payload fails without being read; a row below it goes alone if it must"`
	PollInterval     time.Duration `envconfig:"POLL_INTERVAL" default:"50ms" min:"1ms" desc:"the longest that an idle owner sleeps; not set, an owner whose doorbell works and who found nothing for ten seconds sleeps 1s"`
	ListenChannel    string        `envconfig:"LISTEN_CHANNEL" default:"outbox_messages" empty:"true" desc:"wake-up channel for LISTEN; empty turns it off"`
	Settle           string        `envconfig:"SETTLE" default:"mark" oneof:"mark,delete" desc:"mark sets relayed_at on acknowledged rows, delete deletes them"`
	Shards           int           `envconfig:"SHARDS" default:"16" min:"1" max:"1024" desc:"units of ownership; 1 makes one replica active and the others standby"`
	OwnerTTL         time.Duration `envconfig:"OWNER_TTL" default:"10s" min:"1s" max:"1d" desc:"how long a silent owner keeps its rows"`
	HTTPAddr         string        `envconfig:"HTTP_ADDR" default:":9630" desc:"address of health checks, metrics, status and doorbell"`
	MetricsAddr      string        `envconfig:"METRICS_ADDR" unset:"the same" desc:"an address of its own for /metrics, which OUTBOX_HTTP_ADDR then does not serve"`
	HTTPConfig       string        `envconfig:"HTTP_CONFIG" unset:"none" desc:"path of a file with TLS and basic auth for both, in the format of exporter-toolkit's web configuration"`
	StatusPage       string        `envconfig:"STATUS_PAGE" default:"on" oneof:"on,off" desc:"off turns /status and the page at / off"`
	PprofAddr        string        `envconfig:"PPROF_ADDR" unset:"off" desc:"address of Go's profiles, a loopback address such as 127.0.0.1:6060"`
	ShutdownTimeout  time.Duration `envconfig:"SHUTDOWN_TIMEOUT" default:"25s" min:"1ms" desc:"bound on a clean stop"`
	PruneAfter       time.Duration `envconfig:"PRUNE_AFTER" unset:"off" min:"1s" desc:"run also deletes rows that have been done for so long, gently, one replica at a time; rows that failed stay"`
	TraceRows        bool          `envconfig:"TRACE_ROWS" default:"false" desc:"true makes a span for each row whose traceparent is sampled, from its insert to its mark, beside the span of each batch"`
	LogLevel         slog.Level    `envconfig:"LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	LogFormat        string        `envconfig:"LOG_FORMAT" default:"json" oneof:"json,text" desc:"json or text, on standard error"`
	Pause            Switch        `envconfig:"PAUSE" default:"false" desc:"true: nothing is published; given as OUTBOX_PAUSE_FILE it is read again every second, and a missing file means false"`

	// IdlePause is the longest that an owner sleeps whose doorbell works and who found nothing for ten seconds.
	IdlePause time.Duration

	values []Value
}

// defaultIdlePause is [Config.IdlePause] where the poll interval is not given.
const defaultIdlePause = time.Second

// defaultMaxRowBytes is the least of [Config.MaxRowBytes] where it is not given.
const defaultMaxRowBytes = 64 << 20

// Values of [Config.Settle].
const (
	SettleMark   = "mark"
	SettleDelete = "delete"
)

// StatusPageOff is a value of [Config.StatusPage].
const StatusPageOff = "off"

// Database says how to reach PostgreSQL.
type Database struct {
	URL Secret `envconfig:"DATABASE_URL" unset:"required" secret:"database" desc:"PostgreSQL URL or DSN; libpq PG* variables fill what it leaves out"`
	// DirectURL equals URL where it was not given.
	DirectURL Secret `envconfig:"DATABASE_DIRECT_URL" unset:"the above" secret:"database" desc:"a connection that is not behind a transaction pooler, for ownership and LISTEN"`
}

// Table says which table is the outbox and how its columns are called.
type Table struct {
	Name string `envconfig:"TABLE" default:"outbox_messages" desc:"the outbox table, may be schema-qualified"`
	// Columns maps our name of a column to the table's, for those that were configured.
	Columns map[string]string `envconfig:"COLUMNS" desc:"our name to yours: key:aggregate_id,order:seq,topic:type; header.NAME:COLUMN sends a column as the header NAME"`
	Key     rowkey.Source     `envconfig:"KEY" unset:"the column key, if there is one" desc:"where the ordering key comes from: column:NAME, header:NAME, payload:a.b (path in JSON), topic, none"`
}

// headerPrefix begins our name of a column that is sent as a header.
const headerPrefix = "header."

// Column returns the table's name of one of our columns, whether or not the table has it.
func (t Table) Column(ours string) string {
	if theirs, ok := t.Columns[ours]; ok {
		return theirs
	}
	if ours == "order" {
		return "seq"
	}
	return ours
}

// A Destination is one broker and how to publish to it. Each of its settings may be given for it
// alone or, as the fallback, for all.
type Destination struct {
	Name string
	// Topics are patterns in which * is any text; one that begins with ! leaves topics out. Empty means every topic.
	Topics []string `envconfig:"TOPICS" only:"destination" unset:"every topic" desc:"topics that go to this destination, such as order.*,!order.internal.*; * is any text, also / and ., what ! leaves out stays out, and only exclusions mean everything else; only for a named destination"`
	// Columns is nil for a destination that keeps its state in the columns of the table.
	Columns StateColumns `envconfig:"COLUMNS" only:"destination" unset:"those of the table" desc:"columns that keep this destination's state, so that it gets its own copy of every row that it takes: relayed_at:audit_relayed_at,attempt:…,failed_at:…,last_error:…,updated_at:…, of which relayed_at is required; destinations with the same columns divide the rows; outbox-relay schema --destination NAME prints what they need; only for a named destination"`
	// FailedOf and RelayedOf name another destination; at most one of them is set, and then Columns too.
	FailedOf   string `envconfig:"FAILED_OF" only:"destination" unset:"none" desc:"dead letters: takes the rows that have failed at the destination of this name, with headers that say why (outbox-destination, outbox-topic, outbox-attempt, outbox-failed-at, outbox-error), in the order in which they failed; needs columns of its own"`
	RelayedOf  string `envconfig:"RELAYED_OF" only:"destination" unset:"none" desc:"takes the rows that the destination of this name has relayed, in the order in which it has; needs columns of its own"`
	PublishURL Secret `envconfig:"PUBLISH_URL" unset:"required" secret:"broker" desc:"kafka://h:9092,h2:9092, nats://h:4222 or amqp://user:pass@h:5672/vhost; with TLS kafka+tls://, nats+tls:// or amqps://; ws://h or wss://h/path for NATS through WebSocket; stdout: writes JSON lines, for trying out"`
	Topic      string `envconfig:"TOPIC" default:"{topic}" desc:"template of the broker's topic, subject or routing key; {topic}, {COLUMN}, {header.NAME} and {payload.a.b} (path in JSON) stand for the row's values, {{ and }} for braces"`
	Profile    string `envconfig:"PROFILE" default:"plain" oneof:"plain,cloudevents,debezium,phoenix_micro" desc:"wire format: plain, cloudevents, debezium (then the topic is outbox.event.{topic} unless given) or phoenix_micro (then the exchange is phoenix_micro unless given)"`
	// CloudEventsSource is empty unless the profile is cloudevents and it was given.
	CloudEventsSource  string `envconfig:"CLOUDEVENTS_SOURCE" unset:"/CLUSTER.DATABASE/SCHEMA.TABLE" desc:"the attribute source of profile cloudevents, a URI reference; not set, it names PostgreSQL's system identifier, the database's oid and the table, so that no two services have the same"`
	DebeziumTombstones bool   `envconfig:"DEBEZIUM_TOMBSTONES" default:"false" desc:"profile debezium on Kafka: a NULL payload is a tombstone, not an empty value"`
	PayloadEncoding    string `envconfig:"PAYLOAD_ENCODING" default:"none" oneof:"none,base64,hex" desc:"how a payload column of type text carries bytes: base64 or hex; they are sent decoded, as application/octet-stream unless the row says otherwise, and a text that cannot be decoded fails the row"`
	AMQPExchange       string `envconfig:"AMQP_EXCHANGE" unset:"empty: the default exchange" empty:"true" scheme:"amqp" desc:"exchange to publish to, or a template of it such as {topic} or shop.{COLUMN}, as in OUTBOX_TOPIC"`
	AMQPMechanism      string `envconfig:"AMQP_SASL_MECHANISM" unset:"PLAIN, or auth_mechanism in the URL" scheme:"amqp" oneof:"PLAIN,AMQPLAIN,EXTERNAL" desc:"PLAIN, AMQPLAIN or EXTERNAL; EXTERNAL logs in with the client certificate, OUTBOX_TLS_CERT"`
	AMQPHeaderTypes    string `envconfig:"AMQP_HEADER_TYPES" default:"text" scheme:"amqp" oneof:"text,json" desc:"text sends header values that are not strings as text, as on every broker; json sends numbers, true, false, null, arrays and objects as AMQP fields of their own types"`
	AMQPMandatory      bool   `envconfig:"AMQP_MANDATORY" default:"true" scheme:"amqp" desc:"false lets rows count as relayed that no queue takes, and are lost: only for exchanges that give back what they deliver later (x-delayed-message)"`
	AMQPOAuth          AMQPOAuth
	AMQPManagement     Secret        `envconfig:"AMQP_MANAGEMENT_URL" unset:"not asked" secret:"broker" scheme:"amqp" desc:"RabbitMQ's management interface, http://h:15672 or https://user:pass@h:15671, which doctor asks for queue types, bindings and the state of the cluster, and run whether an exchange in trouble is a fanout; user and password are those of OUTBOX_PUBLISH_URL unless given"`
	MaxAttempts        int           `envconfig:"MAX_ATTEMPTS" default:"5" min:"1" max:"1000000" desc:"refused publishes until failed_at"`
	BackoffMin         time.Duration `envconfig:"BACKOFF_MIN" default:"500ms" min:"1ms" desc:"pause before the second try; doubles with each further one, with full jitter"`
	BackoffMax         time.Duration `envconfig:"BACKOFF_MAX" default:"60s" min:"1ms" desc:"the longest pause between two tries"`
	PublishTimeout     time.Duration `envconfig:"PUBLISH_TIMEOUT" default:"10s" min:"1ms" desc:"then the outcome is unknown and the row is published again"`
	OnFailed           string        `envconfig:"ON_FAILED" default:"continue" oneof:"continue,block" desc:"after failed_at: the key goes on (continue), or waits for retry or discard (block)"`
	Limits
	TLS   TLS
	Kafka Kafka
	NATS  NATS

	// Broker is the publish URL taken apart, as it was when it was loaded, without user and password.
	Broker Broker
}

// Limits bound what a destination takes of the relay, of its broker and of time.
type Limits struct {
	// MaxAge is 0 for any age.
	MaxAge time.Duration `envconfig:"MAX_AGE" unset:"none" min:"1ms" desc:"a row that was not relayed so long after it was due fails just before its next publish, and last_error begins with expired; needs failed_at"`
	Rate   Rate          `envconfig:"RATE" unset:"none" desc:"rows that are published at most, such as 500/s, 30/m or 1000/h, by all replicas together and to each destination"`
	// MaxInFlight and MaxInFlightBytes are 0 for an equal share of what the others leave of the bounds for all.
	MaxInFlight      int    `envconfig:"MAX_IN_FLIGHT" only:"destination" unset:"an equal share" min:"1" max:"1000000" desc:"the destination's part of OUTBOX_MAX_IN_FLIGHT; those without one share what is left"`
	MaxInFlightBytes int64  `envconfig:"MAX_IN_FLIGHT_BYTES" only:"destination" unset:"an equal share" min:"1KiB" desc:"the destination's part of OUTBOX_MAX_IN_FLIGHT_BYTES; those without one share what is left"`
	Pause            Switch `envconfig:"PAUSE" only:"destination" default:"false" desc:"true: nothing is published to this destination; as OUTBOX_PAUSE otherwise, and paused if either says so"`
}

// HeaderTypesJSON is a value of [Destination.AMQPHeaderTypes].
const HeaderTypesJSON = "json"

// OnFailedBlock is a value of [Destination.OnFailed].
const OnFailedBlock = "block"

// NATSCore is the value of [NATS.Mode] without JetStream.
const NATSCore = "core"

// TLS holds PEM text for the connection to a broker with TLS; empty means the system's roots and no
// client certificate.
type TLS struct {
	CA         Secret `envconfig:"TLS_CA" unset:"the system's" secret:"true" scheme:"tls" desc:"PEM certificates that the broker's certificate is checked against; usually as OUTBOX_TLS_CA_FILE"`
	Cert       Secret `envconfig:"TLS_CERT" secret:"true" scheme:"tls" desc:"PEM certificate of the client, for mutual TLS"`
	Key        Secret `envconfig:"TLS_KEY" secret:"true" scheme:"tls" desc:"PEM private key of the client"`
	ServerName string `envconfig:"TLS_SERVER_NAME" unset:"the host" scheme:"tls" desc:"name that the broker's certificate must bear"`
}

// Kafka says how to write to Kafka and how to log in there.
type Kafka struct {
	Compression     string `envconfig:"KAFKA_COMPRESSION" default:"none" oneof:"none,gzip,snappy,lz4,zstd" scheme:"kafka" desc:"how batches are compressed: none, gzip, snappy, lz4 or zstd"`
	Partitioner     string `envconfig:"KAFKA_PARTITIONER" default:"murmur2" oneof:"murmur2,crc32,fnv1a" scheme:"kafka" desc:"which partition a key goes to: murmur2 as with the Java client, crc32 as with librdkafka, fnv1a as with Sarama"`
	Timestamp       string `envconfig:"KAFKA_TIMESTAMP" default:"insert" scheme:"kafka" desc:"time of the records: insert, when the row was inserted; now, when it is sent; column:NAME, the time in a column, and of insert where that is NULL"`
	PartitionHeader string `envconfig:"KAFKA_PARTITION_HEADER" unset:"none" scheme:"kafka" desc:"name of a row header that holds the number of the row's partition; rows without it go by their key"`
	SASLMechanism   string `envconfig:"KAFKA_SASL_MECHANISM" unset:"no SASL" scheme:"kafka" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM" desc:"PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM; AWS_MSK_IAM takes the credentials of the pod's role or of the AWS_… variables"`
	Username        Secret `envconfig:"KAFKA_SASL_USERNAME" secret:"true" scheme:"kafka" desc:"SASL user"`
	Password        Secret `envconfig:"KAFKA_SASL_PASSWORD" secret:"true" scheme:"kafka" desc:"SASL password"`
	AWSRegion       string `envconfig:"KAFKA_AWS_REGION" unset:"that of the broker's name, else AWS_REGION" scheme:"kafka" desc:"region of the cluster for AWS_MSK_IAM, where the brokers have names of your own"`
	OAuth           KafkaOAuth
	// OAuthExtensions are those of the mechanism, not of the token.
	OAuthExtensions []string `envconfig:"KAFKA_OAUTH_EXTENSIONS" unset:"none" scheme:"kafka" desc:"SASL extensions that the cluster wants beside the token: name=value,name=value"`
}

// An OAuth says where the tokens for a login come from: they are given, or asked for with client credentials, of which the secret
// may be an assertion. Each broker has settings of its own for it, in a struct of the same fields.
type OAuth struct {
	Token           Secret
	TokenURL        string
	ClientID        Secret
	ClientSecret    Secret
	ClientAssertion Secret
	Scope           string
}

// IsSet reports whether there are tokens.
func (o OAuth) IsSet() bool { return o.Token.IsSet() || o.TokenURL != "" }

// KafkaOAuth is [OAuth] for OAUTHBEARER.
type KafkaOAuth struct {
	Token           Secret `envconfig:"KAFKA_OAUTH_TOKEN" secret:"true" scheme:"kafka" group:"kafka-oauth" desc:"token for OAUTHBEARER; usually as OUTBOX_KAFKA_OAUTH_TOKEN_FILE, which is read at each login"`
	TokenURL        string `envconfig:"KAFKA_OAUTH_TOKEN_URL" unset:"none" scheme:"kafka" group:"kafka-oauth" desc:"token endpoint that gives tokens for client credentials (OAuth 2.0), instead of a token"`
	ClientID        Secret `envconfig:"KAFKA_OAUTH_CLIENT_ID" secret:"true" scheme:"kafka" group:"kafka-oauth" desc:"client id for the token endpoint"`
	ClientSecret    Secret `envconfig:"KAFKA_OAUTH_CLIENT_SECRET" secret:"true" scheme:"kafka" group:"kafka-oauth" desc:"client secret for the token endpoint"`
	ClientAssertion Secret `envconfig:"KAFKA_OAUTH_CLIENT_ASSERTION" secret:"true" scheme:"kafka" group:"kafka-oauth" desc:"signed JWT that proves who the client is in place of a secret, as a cloud gives it to its workloads; as OUTBOX_KAFKA_OAUTH_CLIENT_ASSERTION_FILE it is read again for each token"`
	Scope           string `envconfig:"KAFKA_OAUTH_SCOPE" unset:"none" scheme:"kafka" group:"kafka-oauth" desc:"scope to ask the token endpoint for"`
}

// AMQPOAuth is [OAuth] for RabbitMQ, where the token stands in the place of the password.
type AMQPOAuth struct {
	Token           Secret `envconfig:"AMQP_OAUTH_TOKEN" secret:"true" scheme:"amqp" group:"amqp-oauth" desc:"token in place of a password, for brokers with rabbitmq_auth_backend_oauth2; usually as OUTBOX_AMQP_OAUTH_TOKEN_FILE, from which a new one is handed over while the connection stays"`
	TokenURL        string `envconfig:"AMQP_OAUTH_TOKEN_URL" unset:"none" scheme:"amqp" group:"amqp-oauth" desc:"token endpoint that gives tokens for client credentials (OAuth 2.0), instead of a token; a token is renewed before it expires, and the connection stays"`
	ClientID        Secret `envconfig:"AMQP_OAUTH_CLIENT_ID" secret:"true" scheme:"amqp" group:"amqp-oauth" desc:"client id for the token endpoint"`
	ClientSecret    Secret `envconfig:"AMQP_OAUTH_CLIENT_SECRET" secret:"true" scheme:"amqp" group:"amqp-oauth" desc:"client secret for the token endpoint"`
	ClientAssertion Secret `envconfig:"AMQP_OAUTH_CLIENT_ASSERTION" secret:"true" scheme:"amqp" group:"amqp-oauth" desc:"signed JWT that proves who the client is in place of a secret, as a cloud gives it to its workloads; as OUTBOX_AMQP_OAUTH_CLIENT_ASSERTION_FILE it is read again for each token"`
	Scope           string `envconfig:"AMQP_OAUTH_SCOPE" unset:"none" scheme:"amqp" group:"amqp-oauth" desc:"scope to ask the token endpoint for"`
}

// TimestampColumn returns the column that gives records their time, "" for none.
func (k Kafka) TimestampColumn() string {
	column, _ := strings.CutPrefix(k.Timestamp, timestampColumn)
	if column == k.Timestamp {
		return ""
	}
	return column
}

// Values of [Kafka.Timestamp]; timestampColumn is the beginning of one.
const (
	TimestampInsert = "insert"
	TimestampNow    = "now"
	timestampColumn = "column:"
)

// EncodingNone is the value of [Destination.PayloadEncoding] for payloads that are sent as they are; the others are named as in the package
// relay.
const EncodingNone = "none"

// Values of [Kafka.SASLMechanism] that need no password: one takes tokens, the other AWS credentials.
const (
	MechanismOAuth = "OAUTHBEARER"
	MechanismIAM   = "AWS_MSK_IAM"
)

// NATS says how to publish to a NATS server, and holds the credentials for it, at most one of them.
type NATS struct {
	Stream string `envconfig:"NATS_STREAM" unset:"whichever takes the subject" scheme:"nats" desc:"the only stream that may take the rows; those whose subject another one takes are held"`
	Mode   string `envconfig:"NATS_MODE" default:"jetstream" oneof:"jetstream,core" scheme:"nats" desc:"core publishes without JetStream: then a row counts as relayed when a server has read it, although nothing stores it and nobody may be subscribed"`
	// MsgIDPrefix is empty unless it was given.
	MsgIDPrefix string `envconfig:"NATS_MSG_ID_PREFIX" unset:"CLUSTER.DATABASE" scheme:"nats" desc:"what Nats-Msg-Id begins with where the row's id is no uuid; not set, PostgreSQL's system identifier and the database's oid. Rows whose ids are equal in one stream are dropped as duplicates"`
	Domain      string `envconfig:"NATS_JS_DOMAIN" unset:"the server's" scheme:"nats" desc:"JetStream domain of the streams, where that is not the server's own: a hub behind leaf nodes, say"`
	InboxPrefix string `envconfig:"NATS_INBOX_PREFIX" unset:"_INBOX" scheme:"nats" desc:"what the subjects begin with where acknowledgements arrive, for users who may subscribe only to inboxes of their own"`
	TLSFirst    bool   `envconfig:"NATS_TLS_FIRST" default:"false" scheme:"nats" desc:"true starts TLS before the server's greeting, for servers with handshake_first"`

	Creds Secret `envconfig:"NATS_CREDS" secret:"true" scheme:"nats" group:"nats" desc:"text of a credentials file (JWT and seed); usually as OUTBOX_NATS_CREDS_FILE"`
	Nkey  Secret `envconfig:"NATS_NKEY" secret:"true" scheme:"nats" group:"nats" desc:"NKey seed"`
	Token Secret `envconfig:"NATS_TOKEN" secret:"true" scheme:"nats" group:"nats" desc:"token"`
}
