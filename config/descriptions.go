package config

// descriptions holds the meaning of each setting, by its variable without the prefix OUTBOX_: a line for the table, and after the line
// break, where one line is not enough, sentences that are printed below the table. They are not struct tags because a tag must not contain
// a line break.
var descriptions = map[string]string{
	"DESTINATIONS": "names of the destinations, such as orders,audit\n" +
		"Each setting marked * may also be given for one destination, as OUTBOX_DESTINATION_ORDERS_…, and is " +
		"otherwise inherited from the common value.",
	"BATCH_SIZE": "maximum number of rows per read and per publish",
	"MAX_IN_FLIGHT": "maximum number of rows that are read and not yet settled, over all destinations\n" +
		"It is also the bound on duplicates after a crash.",
	"MAX_IN_FLIGHT_BYTES": "the same bound in bytes of payload",
	"MAX_ROW_BYTES": "maximum size of a payload; a larger row fails without being read\n" +
		"A row below the limit is published alone if necessary.",
	"POLL_INTERVAL": "maximum time that an idle owner sleeps\n" +
		"If it is not set, an owner with a working doorbell sleeps 1s after ten seconds without rows.",
	"LISTEN_CHANNEL": "channel for LISTEN, which wakes the relay; empty turns it off",
	"SETTLE":         "mark sets relayed_at on acknowledged rows, delete deletes them",
	"SHARDS":         "number of units of ownership; with 1, one replica is active and the others stand by",
	"OWNER_TTL":      "time after which an owner that does not respond loses its rows",
	"HTTP_ADDR":      "address of health checks, metrics, status and doorbell",
	"METRICS_ADDR":   "separate address for /metrics, which OUTBOX_HTTP_ADDR then does not serve",
	"HTTP_CONFIG": "path of a file with TLS and basic authentication for both addresses\n" +
		"The file has the format of exporter-toolkit's web configuration.",
	"STATUS_PAGE":      "off disables /status and the page at /",
	"PPROF_ADDR":       "address of Go's profiles, a loopback address such as 127.0.0.1:6060",
	"SHUTDOWN_TIMEOUT": "maximum duration of a clean stop",
	"PRUNE_AFTER": "age at which run deletes rows that are done\n" +
		"It deletes in small steps, by one replica at a time. Failed rows are kept.",
	"TRACE_ROWS": "true records a span for each row whose traceparent is sampled\n" +
		"The span goes from the row's insert to its mark. There is a span for each batch in any case.",
	"LOG_LEVEL":  "debug, info, warn or error; debug adds a line for each batch",
	"LOG_FORMAT": "json or text, on standard error",
	"PAUSE": "true stops publishing\n" +
		"The file named by OUTBOX_PAUSE_FILE is read again every second. A missing file means false.",
	"DATABASE_URL":        "PostgreSQL URL or DSN; libpq's PG* variables supply what it omits",
	"DATABASE_DIRECT_URL": "URL or DSN of a connection without a transaction pooler, for ownership and LISTEN",
	"TABLE":               "the outbox table, optionally with its schema",
	"COLUMNS": "column names, as pairs of the relay's name and the table's: key:aggregate_id,order:seq,topic:type\n" +
		"header.NAME:COLUMN sends a column as the header NAME.",
	"KEY": "source of the ordering key: column:NAME, header:NAME, payload:a.b (path in JSON), topic or none",
	"DESTINATION_<NAME>_TOPICS": "topics that go to this destination, such as order.*,!order.internal.*\n" +
		"* matches any text, including / and . and ! excludes topics and takes precedence. A list of exclusions " +
		"alone includes every other topic.",
	"DESTINATION_<NAME>_COLUMNS": "columns that hold this destination's state, which gives it its own copy of every " +
		"row that it takes\n" +
		"The pairs are relayed_at:audit_relayed_at,attempt:…,failed_at:…,last_error:…,updated_at:…, of which " +
		"relayed_at is required. Destinations with the same columns divide the rows. outbox-relay schema " +
		"--destination NAME prints the necessary columns and indexes.",
	"DESTINATION_<NAME>_FAILED_OF": "name of the destination whose failed rows this destination takes as dead " +
		"letters\n" +
		"It takes them in the order in which they failed, with headers that give the reason: outbox-destination, " +
		"outbox-topic, outbox-attempt, outbox-failed-at, outbox-error. It requires columns of its own.",
	"DESTINATION_<NAME>_RELAYED_OF": "name of the destination whose relayed rows this destination takes\n" +
		"It takes them in the order in which they were relayed. It requires columns of its own.",
	"DESTINATION_<NAME>_REQUIRED": "false makes this destination best effort: readiness, drain and prune do not wait " +
		"for it\n" +
		"Its alerts are warnings. Rows that only best-effort destinations take are pruned when these have done them.",
	"PUBLISH_URL": "kafka://h:9092,h2:9092, nats://h:4222 or amqp://user:pass@h:5672/vhost\n" +
		"With TLS it is kafka+tls://, nats+tls:// or amqps://. ws://h or wss://h/path is NATS over WebSocket. " +
		"stdout: writes JSON lines, for trying out.",
	"TOPIC": "template of the broker's topic, subject or routing key\n" +
		"{topic}, {COLUMN}, {header.NAME} and {payload.a.b} (path in JSON) are replaced by the row's values, {{ and " +
		"}} by braces.",
	"PROFILE": "wire format: plain, cloudevents, debezium or phoenix_micro\n" +
		"With debezium the default topic is outbox.event.{topic}, with phoenix_micro the default exchange is " +
		"phoenix_micro.",
	"CLOUDEVENTS_SOURCE": "the attribute source of profile cloudevents, a URI reference\n" +
		"The default is made of PostgreSQL's system identifier, the database's oid and the table, so that it is " +
		"different for each service.",
	"DEBEZIUM_TOMBSTONES": "true publishes a NULL payload as a tombstone instead of an empty value, for profile " +
		"debezium on Kafka",
	"PAYLOAD_ENCODING": "encoding of bytes in a payload column of type text: base64 or hex\n" +
		"The payload is decoded before it is published, as application/octet-stream unless the row has a content " +
		"type. A row whose text cannot be decoded fails.",
	"AMQP_EXCHANGE": "exchange to publish to, or a template of it such as {topic} or shop.{COLUMN}, as in OUTBOX_TOPIC",
	"AMQP_SASL_MECHANISM": "PLAIN, AMQPLAIN or EXTERNAL; EXTERNAL authenticates with the client certificate, " +
		"OUTBOX_TLS_CERT",
	"AMQP_HEADER_TYPES": "text sends header values that are not strings as text, json as AMQP fields\n" +
		"With text, headers are as for every broker. With json, numbers, true, false, null, arrays and objects are " +
		"fields of the corresponding types.",
	"AMQP_MANDATORY": "false counts rows as relayed although no queue takes them, so that they are lost\n" +
		"Use it only for exchanges that return what they deliver later (x-delayed-message).",
	"AMQP_MANAGEMENT_URL": "RabbitMQ's management interface, http://h:15672 or https://user:pass@h:15671\n" +
		"doctor reads queue types, bindings and the state of the cluster from it. User and password default to those " +
		"of OUTBOX_PUBLISH_URL.",
	"MAX_ATTEMPTS":    "number of refused publishes after which failed_at is set",
	"BACKOFF_MIN":     "pause before the second attempt; doubles with each further attempt, with full jitter",
	"BACKOFF_MAX":     "maximum pause between two attempts",
	"PUBLISH_TIMEOUT": "time after which the outcome of a publish is unknown and the row is published again",
	"ON_FAILED": "what happens to a key after failed_at is set: it goes on (continue), or waits for retry or discard " +
		"(block)",
	"MAX_AGE": "maximum time between when a row is due and when it is relayed\n" +
		"An older row fails just before its next publish, with a last_error that begins with expired. It requires " +
		"failed_at.",
	"RATE": "maximum number of rows published to each destination, by all replicas together, such as 500/s, 30/m or " +
		"1000/h",
	"DESTINATION_<NAME>_MAX_IN_FLIGHT": "this destination's share of OUTBOX_MAX_IN_FLIGHT\n" +
		"Destinations without a share of their own divide the rest equally.",
	"DESTINATION_<NAME>_MAX_IN_FLIGHT_BYTES": "this destination's share of OUTBOX_MAX_IN_FLIGHT_BYTES\n" +
		"Destinations without a share of their own divide the rest equally.",
	"DESTINATION_<NAME>_PAUSE": "true stops publishing to this destination\n" +
		"It is read as OUTBOX_PAUSE is, and either of them pauses the destination.",
	"TLS_CA": "PEM certificates that the broker's certificate is verified against\n" +
		"It is usually given as OUTBOX_TLS_CA_FILE.",
	"TLS_CERT":          "PEM certificate of the client, for mutual TLS",
	"TLS_KEY":           "PEM private key of the client",
	"TLS_SERVER_NAME":   "name that the broker's certificate must contain",
	"KAFKA_COMPRESSION": "compression of batches: none, gzip, snappy, lz4 or zstd",
	"KAFKA_PARTITIONER": "hash that maps a key to a partition: murmur2 as in the Java client, crc32 as in librdkafka, " +
		"fnv1a as in Sarama",
	"KAFKA_TIMESTAMP": "timestamp of the records: insert, now or column:NAME\n" +
		"insert is the time of the row's insert, now the time of the publish, column:NAME the time in a column, or " +
		"that of the insert if it is NULL.",
	"KAFKA_PARTITION_HEADER": "name of a row header that holds the number of the row's partition; rows without it are " +
		"partitioned by key",
	"KAFKA_SASL_MECHANISM": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM\n" +
		"AWS_MSK_IAM uses the credentials of the pod's role or of the AWS_… variables.",
	"KAFKA_SASL_USERNAME": "SASL user",
	"KAFKA_SASL_PASSWORD": "SASL password",
	"KAFKA_AWS_REGION":    "region of the cluster for AWS_MSK_IAM, for brokers with custom host names",
	"KAFKA_OAUTH_EXTENSIONS": "SASL extensions that the cluster requires in addition to the token: " +
		"name=value,name=value",
	"KAFKA_OAUTH_TOKEN": "token for OAUTHBEARER\n" +
		"It is usually given as OUTBOX_KAFKA_OAUTH_TOKEN_FILE, which is read at each login.",
	"KAFKA_OAUTH_TOKEN_URL": "token endpoint that issues tokens for client credentials (OAuth 2.0), in place of a " +
		"token",
	"KAFKA_OAUTH_CLIENT_ID":     "client id for the token endpoint",
	"KAFKA_OAUTH_CLIENT_SECRET": "client secret for the token endpoint",
	"KAFKA_OAUTH_CLIENT_ASSERTION": "signed JWT that authenticates the client in place of a secret\n" +
		"Clouds issue such assertions to their workloads. OUTBOX_KAFKA_OAUTH_CLIENT_ASSERTION_FILE is read again for " +
		"each token.",
	"KAFKA_OAUTH_SCOPE": "scope to request from the token endpoint",
	"AMQP_OAUTH_TOKEN": "token in place of a password, for brokers with rabbitmq_auth_backend_oauth2\n" +
		"It is usually given as OUTBOX_AMQP_OAUTH_TOKEN_FILE, from which the relay renews the token without " +
		"reconnecting.",
	"AMQP_OAUTH_TOKEN_URL": "token endpoint that issues tokens for client credentials (OAuth 2.0), in place of a " +
		"token\n" +
		"The relay renews a token before it expires, without reconnecting.",
	"AMQP_OAUTH_CLIENT_ID":     "client id for the token endpoint",
	"AMQP_OAUTH_CLIENT_SECRET": "client secret for the token endpoint",
	"AMQP_OAUTH_CLIENT_ASSERTION": "signed JWT that authenticates the client in place of a secret\n" +
		"Clouds issue such assertions to their workloads. OUTBOX_AMQP_OAUTH_CLIENT_ASSERTION_FILE is read again for " +
		"each token.",
	"AMQP_OAUTH_SCOPE": "scope to request from the token endpoint",
	"NATS_STREAM":      "the only stream that may take the rows; rows whose subject belongs to another stream are held",
	"NATS_MODE": "jetstream, or core for a publish without JetStream\n" +
		"With core a row counts as relayed when a server has read it, although nothing stores it and nobody may be " +
		"subscribed.",
	"NATS_MSG_ID_PREFIX": "first part of Nats-Msg-Id for rows whose id is not a UUID\n" +
		"The default is made of PostgreSQL's system identifier and the database's oid. A stream drops rows with " +
		"equal ids as duplicates.",
	"NATS_JS_DOMAIN": "JetStream domain of the streams, if it is not the server's own\n" +
		"It is needed for a hub with leaf nodes, for example.",
	"NATS_INBOX_PREFIX": "prefix of the subjects on which acknowledgements arrive, for users that may subscribe only " +
		"to their own inboxes",
	"NATS_TLS_FIRST": "true starts TLS before the server's greeting, for servers with handshake_first",
	"NATS_CREDS": "content of a credentials file (JWT and seed)\n" +
		"It is usually given as OUTBOX_NATS_CREDS_FILE.",
	"NATS_NKEY":  "NKey seed",
	"NATS_TOKEN": "token",
}
