package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
)

// problemsOf returns what is wrong with the minimal environment changed by more.
func problemsOf(t *testing.T, more ...string) []string {
	t.Helper()
	_, err := parse(append(append([]string{}, minimal...), more...), true)
	problems, ok := errors.AsType[*Error](err)
	if !ok {
		if err != nil {
			t.Fatalf("error of type %T", err)
		}
		return nil
	}
	var lines []string
	for _, p := range problems.Problems {
		lines = append(lines, p.String())
	}
	return lines
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	const forms = "write kafka://host:9092, nats://host:4222 or amqp://user:password@host:5672/vhost (with TLS kafka+tls, nats+tls or " +
		"amqps), ws:// or wss:// for NATS through WebSocket, or stdout: to try it out"
	const noRate = "is not a rate; write a whole number of rows, a slash and s, m, h or d: 500/s, 30/m or 1000/h"
	missing := filepath.Join(t.TempDir(), "missing")
	empty := file(t, "\n")
	many := file(t, "many")
	for _, c := range []struct {
		env  string // variables, separated by blanks
		want string
	}{
		{"OUTBOX_DATABASE_URL=",
			`OUTBOX_DATABASE_URL is required; give a PostgreSQL URL such as postgres://user:password@host:5432/database, or its file as OUTBOX_DATABASE_URL_FILE`},
		{"OUTBOX_PUBLISH_URL=", `OUTBOX_PUBLISH_URL is required; ` + forms},

		{"OUTBOX_BATCH_SIZE=many", `OUTBOX_BATCH_SIZE="many" is not a whole number; write digits only, such as 1000`},
		{"OUTBOX_BATCH_SIZE=1e3", `OUTBOX_BATCH_SIZE="1e3" is not a whole number; write digits only, such as 1000`},
		{"OUTBOX_BATCH_SIZE=0", `OUTBOX_BATCH_SIZE="0" is too small; the least is 1`},
		{"OUTBOX_BATCH_SIZE=100001", `OUTBOX_BATCH_SIZE="100001" is too large; the most is 100000`},
		{"OUTBOX_MAX_IN_FLIGHT=0", `OUTBOX_MAX_IN_FLIGHT="0" is too small; the least is 1`},
		{"OUTBOX_MAX_IN_FLIGHT_BYTES=64MB",
			`OUTBOX_MAX_IN_FLIGHT_BYTES="64MB" is not a size; write bytes, or a number with KiB, MiB or GiB, such as 64MiB`},
		{"OUTBOX_MAX_IN_FLIGHT_BYTES=1", `OUTBOX_MAX_IN_FLIGHT_BYTES="1" is too small; the least is 1KiB`},
		{"OUTBOX_MAX_IN_FLIGHT_BYTES=99999999999GiB",
			`OUTBOX_MAX_IN_FLIGHT_BYTES="99999999999GiB" is not a size; write bytes, or a number with KiB, MiB or GiB, such as 64MiB`},
		{"OUTBOX_RATE=500", `OUTBOX_RATE="500" ` + noRate},
		{"OUTBOX_RATE=1.5/s", `OUTBOX_RATE="1.5/s" ` + noRate},
		{"OUTBOX_RATE=500/min", `OUTBOX_RATE="500/min" ` + noRate},
		{"OUTBOX_RATE=/s", `OUTBOX_RATE="/s" ` + noRate},
		{"OUTBOX_RATE=0/s", `OUTBOX_RATE="0/s" is too small; the least is 1 row in a time. To publish nothing use the setting PAUSE`},
		{"OUTBOX_RATE=-5/s", `OUTBOX_RATE="-5/s" is too small; the least is 1 row in a time. To publish nothing use the setting PAUSE`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_RATE=fast", `OUTBOX_DESTINATION_A_RATE="fast" ` + noRate},
		{"OUTBOX_MAX_AGE=old", `OUTBOX_MAX_AGE="old" is not a duration; write a number and its unit: 500ms, 10s, 5m, 1h or 7d`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_MAX_AGE=1h OUTBOX_DESTINATION_A_COLUMNS=relayed_at:a_relayed_at",
			`OUTBOX_DESTINATION_A_MAX_AGE="1h" needs a column for failed_at, and OUTBOX_DESTINATION_A_COLUMNS names none; add one or remove the setting`},
		{"OUTBOX_PAUSE=yes", `OUTBOX_PAUSE="yes" is neither true nor false`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_PAUSE=yes", `OUTBOX_DESTINATION_A_PAUSE="yes" is neither true nor false`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_MAX_IN_FLIGHT=4097",
			`OUTBOX_DESTINATION_A_MAX_IN_FLIGHT="4097" is too large: the parts of all destinations are 4097 rows together, and OUTBOX_MAX_IN_FLIGHT is 4096; lower the one or raise the other`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_A_MAX_IN_FLIGHT=4096",
			`OUTBOX_DESTINATION_A_MAX_IN_FLIGHT="4096" is too large: the parts of all destinations are 4096 rows together, and OUTBOX_MAX_IN_FLIGHT is 4096, which must leave something for the destinations without a part of their own; lower the one or raise the other`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_A_MAX_IN_FLIGHT_BYTES=1GiB OUTBOX_DESTINATION_B_MAX_IN_FLIGHT_BYTES=1KiB " +
			"OUTBOX_MAX_IN_FLIGHT_BYTES=1GiB",
			`OUTBOX_DESTINATION_A_MAX_IN_FLIGHT_BYTES="1GiB" is too large: the parts of all destinations are 1073742848 bytes together, and OUTBOX_MAX_IN_FLIGHT_BYTES is 1073741824; lower the one or raise the other`},
		{"OUTBOX_POLL_INTERVAL=0", `OUTBOX_POLL_INTERVAL="0" is too small; the least is 1ms`},
		{"OUTBOX_POLL_INTERVAL=50", `OUTBOX_POLL_INTERVAL="50" is not a duration; write a number and its unit: 500ms, 10s, 5m, 1h or 7d`},
		{"OUTBOX_POLL_INTERVAL=-1s", `OUTBOX_POLL_INTERVAL="-1s" is too small; the least is 1ms`},
		{"OUTBOX_OWNER_TTL=999ms", `OUTBOX_OWNER_TTL="999ms" is too small; the least is 1s`},
		{"OUTBOX_SHARDS=0", `OUTBOX_SHARDS="0" is too small; the least is 1`},
		{"OUTBOX_SETTLE=Delete", `OUTBOX_SETTLE="Delete" is not one of mark, delete`},
		{"OUTBOX_LOG_LEVEL=loud", `OUTBOX_LOG_LEVEL="loud" is not a level; write debug, info, warn or error`},
		{"OUTBOX_LOG_FORMAT=xml", `OUTBOX_LOG_FORMAT="xml" is not one of json, text`},
		{"OUTBOX_HTTP_ADDR=9630", `OUTBOX_HTTP_ADDR="9630" is no address; write host:port, or :9630 for all interfaces`},
		{"OUTBOX_METRICS_ADDR=9631", `OUTBOX_METRICS_ADDR="9631" is no address; write host:port, or :9630 for all interfaces`},
		{"OUTBOX_PPROF_ADDR=:6060", `OUTBOX_PPROF_ADDR=":6060" must be a loopback address, since profiles show what is in memory; write 127.0.0.1:6060 or [::1]:6060`},
		{"OUTBOX_PPROF_ADDR=10.0.0.1:6060", `OUTBOX_PPROF_ADDR="10.0.0.1:6060" must be a loopback address, since profiles show what is in memory; write 127.0.0.1:6060 or [::1]:6060`},
		{"OUTBOX_PPROF_ADDR=6060", `OUTBOX_PPROF_ADDR="6060" is no address; write host:port, or :9630 for all interfaces`},
		{"OUTBOX_HTTP_CONFIG=basic_auth_users:\n  a: b", `OUTBOX_HTTP_CONFIG is not the path of a file; give the path itself, OUTBOX_HTTP_CONFIG=/etc/outbox-relay/web.yaml, without _FILE`},
		{"OUTBOX_STATUS_PAGE=false", `OUTBOX_STATUS_PAGE="false" is not one of on, off`},
		{"OUTBOX_HTTP_ADDR=:http", `OUTBOX_HTTP_ADDR=":http" has a port that is no number from 0 to 65535`},
		{"OUTBOX_LISTEN_CHANNEL=" + strings.Repeat("x", 64),
			`OUTBOX_LISTEN_CHANNEL="` + strings.Repeat("x", 64) + `" is too long for PostgreSQL; a channel's name has at most 63 bytes`},

		{"OUTBOX_TABLE=a.b.c", `OUTBOX_TABLE="a.b.c" is no table name; write table or schema.table, a name with a dot in double quotes`},
		{"OUTBOX_TABLE=a\nb", `OUTBOX_TABLE="a\nb" is no table name; write table or schema.table, a name with a dot in double quotes`},
		{"OUTBOX_COLUMNS=key", `OUTBOX_COLUMNS="key" is not a list of pairs; write our name, a colon and yours: key:aggregate_id,order:seq`},
		{"OUTBOX_COLUMNS=sequence:seq",
			`OUTBOX_COLUMNS="sequence:seq" maps "sequence", which is no name of ours; the left side is one of id, topic, payload, headers, attempt, relayed_at, failed_at, last_error, inserted_at, updated_at, key, order, available_at, priority, txid, or header.NAME`},
		{"OUTBOX_COLUMNS=header.:type",
			`OUTBOX_COLUMNS="header.:type" maps "header.", which is no name of ours; the left side is one of id, topic, payload, headers, attempt, relayed_at, failed_at, last_error, inserted_at, updated_at, key, order, available_at, priority, txid, or header.NAME`},
		{"OUTBOX_COLUMNS=key:a,key:b", `OUTBOX_COLUMNS="key:a,key:b" maps key twice`},
		{"OUTBOX_COLUMNS=relayed_at:processed_at,failed_at:processed_at",
			`OUTBOX_COLUMNS="relayed_at:processed_at,failed_at:processed_at" takes the column processed_at for both relayed_at and failed_at; what the relay writes needs a column of its own`},
		{"OUTBOX_COLUMNS=updated_at:inserted_at",
			`OUTBOX_COLUMNS="updated_at:inserted_at" takes the column inserted_at for both inserted_at and updated_at; what the relay writes needs a column of its own`},
		{"OUTBOX_KEY=tenant", `OUTBOX_KEY="tenant" is no source of a key; write column:NAME, header:NAME, payload:a.b, topic or none`},
		{"OUTBOX_KEY=column:", `OUTBOX_KEY="column:" is no source of a key; write column:NAME, header:NAME, payload:a.b, topic or none`},
		{"OUTBOX_KEY=topic:x", `OUTBOX_KEY="topic:x" is no source of a key; write column:NAME, header:NAME, payload:a.b, topic or none`},
		{"OUTBOX_KEY=payload:a..b", `OUTBOX_KEY="payload:a..b" has an empty part in its path; write payload:a or payload:a.b`},
		{"OUTBOX_KEY=topic OUTBOX_COLUMNS=key:tenant", `OUTBOX_COLUMNS="key:tenant" maps key, which contradicts OUTBOX_KEY; remove one of them`},

		{"OUTBOX_DATABASE_URL=mysql://u:hush@h/d",
			`OUTBOX_DATABASE_URL is neither a PostgreSQL URL nor a DSN; write postgres://user:password@host:5432/database or host=… user=… dbname=…`},
		{"OUTBOX_DATABASE_URL=hush",
			`OUTBOX_DATABASE_URL is neither a PostgreSQL URL nor a DSN; write postgres://user:password@host:5432/database or host=… user=… dbname=…`},
		{"OUTBOX_DATABASE_URL=postgres://u:hu#sh@h/d",
			`OUTBOX_DATABASE_URL has an @ or # after its host; in user names and passwords write / as %2F, ? as %3F, # as %23 and @ as %40`},
		{"OUTBOX_DATABASE_URL=postgres://u:hu%sh@h/d",
			`OUTBOX_DATABASE_URL has a % that does not start a percent-encoded character; write % as %25`},
		{"OUTBOX_DATABASE_URL=postgres://u:hush@h:x/d", `OUTBOX_DATABASE_URL has a port that is no number from 1 to 65535`},
		{"OUTBOX_DATABASE_URL=postgres://u:hush@h/d?connect_timeout=soon",
			`OUTBOX_DATABASE_URL cannot be used: strconv.ParseInt: parsing "soon": invalid syntax`},
		{"OUTBOX_DATABASE_URL=postgres://u:hush@h/d?target_session_attrs=hush",
			`OUTBOX_DATABASE_URL cannot be used; check its parameters and the PG* variables`},
		{"OUTBOX_DATABASE_DIRECT_URL=hush",
			`OUTBOX_DATABASE_DIRECT_URL is neither a PostgreSQL URL nor a DSN; write postgres://user:password@host:5432/database or host=… user=… dbname=…`},

		{"OUTBOX_PUBLISH_URL=http://h", `OUTBOX_PUBLISH_URL has the unknown scheme "http"; ` + forms},
		{"OUTBOX_PUBLISH_URL=hush", `OUTBOX_PUBLISH_URL is no URL of a broker; ` + forms},
		{"OUTBOX_PUBLISH_URL=kafka://", `OUTBOX_PUBLISH_URL names no host; write host:port after the //`},
		{"OUTBOX_PUBLISH_URL=kafka://:9092", `OUTBOX_PUBLISH_URL names no host; write host:port after the //`},
		{"OUTBOX_PUBLISH_URL=kafka://h:9092,", `OUTBOX_PUBLISH_URL names no host; write host:port after the //`},
		{"OUTBOX_PUBLISH_URL=kafka://h:99999", `OUTBOX_PUBLISH_URL has a port that is no number from 1 to 65535`},
		{"OUTBOX_PUBLISH_URL=nats://::1:4222",
			`OUTBOX_PUBLISH_URL has a host that cannot be read; write host:port, and IPv6 addresses in brackets`},
		{"OUTBOX_PUBLISH_URL=kafka://h/orders",
			`OUTBOX_PUBLISH_URL has a path, which only AMQP URLs have (the vhost); set the topic with OUTBOX_TOPIC`},
		{"OUTBOX_PUBLISH_URL=nats://h?x=hush", `OUTBOX_PUBLISH_URL has parameters after a ?, which only AMQP URLs have`},
		{"OUTBOX_PUBLISH_URL=kafka://u:hush@h",
			`OUTBOX_PUBLISH_URL holds a user, which Kafka URLs do not have; give OUTBOX_KAFKA_SASL_MECHANISM, _USERNAME and _PASSWORD instead`},
		{"OUTBOX_PUBLISH_URL=amqp://u:hu/sh@h",
			`OUTBOX_PUBLISH_URL has an @ or # after its host; in user names and passwords write / as %2F, ? as %3F, # as %23 and @ as %40`},
		{"OUTBOX_PUBLISH_URL=amqp://u:hush@h\n",
			`OUTBOX_PUBLISH_URL contains a blank or a control character; remove it, or percent-encode it in a password`},

		{"OUTBOX_TOPIC={topic", `OUTBOX_TOPIC="{topic" has a { without its }; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ for a brace`},
		{"OUTBOX_TOPIC={a{b}}", `OUTBOX_TOPIC="{a{b}}" has a { without its }; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ for a brace`},
		{"OUTBOX_TOPIC=topic}", `OUTBOX_TOPIC="topic}" has a } without its {; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or }} for a brace`},
		{"OUTBOX_TOPIC={{a}", `OUTBOX_TOPIC="{{a}" has a } without its {; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or }} for a brace`},
		{"OUTBOX_TOPIC={payload.a..b}", `OUTBOX_TOPIC="{payload.a..b}" has an empty step in the path of {payload.a..b}; write {payload.a} or {payload.a.b}`},
		{"OUTBOX_TOPIC=a.{}", `OUTBOX_TOPIC="a.{}" has an empty {}; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}`},
		{"OUTBOX_PROFILE=avro", `OUTBOX_PROFILE="avro" is not one of plain, cloudevents, debezium, phoenix_micro`},
		{"OUTBOX_CLOUDEVENTS_SOURCE=/x",
			`OUTBOX_CLOUDEVENTS_SOURCE="/x" has no effect without OUTBOX_PROFILE=cloudevents; set that, or remove the setting`},
		{"OUTBOX_DEBEZIUM_TOMBSTONES=true",
			`OUTBOX_DEBEZIUM_TOMBSTONES="true" has no effect without OUTBOX_PROFILE=debezium; set that, or remove the setting`},
		{"OUTBOX_PROFILE=debezium OUTBOX_DEBEZIUM_TOMBSTONES=yes", `OUTBOX_DEBEZIUM_TOMBSTONES="yes" is neither true nor false`},
		{"OUTBOX_ON_FAILED=stop", `OUTBOX_ON_FAILED="stop" is not one of continue, block`},
		{"OUTBOX_MAX_ATTEMPTS=0", `OUTBOX_MAX_ATTEMPTS="0" is too small; the least is 1`},
		{"OUTBOX_BACKOFF_MIN=2m", `OUTBOX_BACKOFF_MIN="2m" is more than OUTBOX_BACKOFF_MAX, which is 60s; lower the one or raise the other`},
		{"OUTBOX_BACKOFF_MAX=100ms",
			`OUTBOX_BACKOFF_MAX="100ms" is less than OUTBOX_BACKOFF_MIN, which is 500ms; raise the one or lower the other`},
		{"OUTBOX_PUBLISH_TIMEOUT=0s", `OUTBOX_PUBLISH_TIMEOUT="0s" is too small; the least is 1ms`},
		{"OUTBOX_AMQP_EXCHANGE=orders", `OUTBOX_AMQP_EXCHANGE is for AMQP, but OUTBOX_PUBLISH_URL is not; remove one of them`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_AMQP_EXCHANGE=" + strings.Repeat("x", 256),
			`OUTBOX_AMQP_EXCHANGE="` + strings.Repeat("x", 200) + `…" is too long; AMQP names have at most 255 bytes`},
		{"OUTBOX_PUBLISH_URL=amqps://h OUTBOX_AMQP_SASL_MECHANISM=EXTERNAL",
			`OUTBOX_AMQP_SASL_MECHANISM="EXTERNAL" needs a client certificate; give OUTBOX_TLS_CERT and OUTBOX_TLS_KEY, usually as files, with an amqps:// URL`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_AMQP_MANAGEMENT_URL=h:15672",
			`OUTBOX_AMQP_MANAGEMENT_URL is no URL of RabbitMQ's management interface; write http://host:15672 or https://host:15671, with user:password@ before the host unless they are those of the publish URL`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_AMQP_MANAGEMENT_URL=amqp://u:hush@h:15672",
			`OUTBOX_AMQP_MANAGEMENT_URL is no URL of RabbitMQ's management interface; write http://host:15672 or https://host:15671, with user:password@ before the host unless they are those of the publish URL`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_AMQP_MANAGEMENT_URL=http://u:hush@a,b",
			`OUTBOX_AMQP_MANAGEMENT_URL names several hosts; one is enough, since each node tells of the whole cluster`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_AMQP_MANAGEMENT_URL=http://u:hush/@h",
			`OUTBOX_AMQP_MANAGEMENT_URL has an @ or # after its host; in user names and passwords write / as %2F, ? as %3F, # as %23 and @ as %40`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_AMQP_MANAGEMENT_URL=http://u:hu^sh@h",
			`OUTBOX_AMQP_MANAGEMENT_URL cannot be read; percent-encode special characters in user and password`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_AMQP_MANAGEMENT_URL=http://h",
			`OUTBOX_AMQP_MANAGEMENT_URL is for AMQP, but OUTBOX_PUBLISH_URL is not; remove one of them`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_TLS_SERVER_NAME=n OUTBOX_AMQP_MANAGEMENT_URL=http://h",
			`OUTBOX_TLS_SERVER_NAME has no effect without TLS; write OUTBOX_PUBLISH_URL with amqps:// or remove the setting`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_AMQP_EXCHANGE=a{b",
			`OUTBOX_AMQP_EXCHANGE="a{b" has a { without its }; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ for a brace`},

		{"OUTBOX_TLS_SERVER_NAME=k",
			`OUTBOX_TLS_SERVER_NAME has no effect without TLS; write OUTBOX_PUBLISH_URL with kafka+tls:// or remove the setting`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_TLS_SERVER_NAME=k",
			`OUTBOX_TLS_SERVER_NAME has no effect without TLS; write OUTBOX_PUBLISH_URL with nats+tls:// or remove the setting`},
		{"OUTBOX_PUBLISH_URL=amqp://h OUTBOX_TLS_SERVER_NAME=k",
			`OUTBOX_TLS_SERVER_NAME has no effect without TLS; write OUTBOX_PUBLISH_URL with amqps:// or remove the setting`},
		{"OUTBOX_PUBLISH_URL=stdout: OUTBOX_TLS_SERVER_NAME=k",
			`OUTBOX_TLS_SERVER_NAME is for TLS, but OUTBOX_PUBLISH_URL is not; remove one of them`},
		{"OUTBOX_PUBLISH_URL=kafka+tls://h OUTBOX_TLS_CA=/etc/ca.pem",
			`OUTBOX_TLS_CA holds no PEM certificate; to name a file use OUTBOX_TLS_CA_FILE`},
		{"OUTBOX_PUBLISH_URL=kafka+tls://h OUTBOX_TLS_CERT=hush",
			`OUTBOX_TLS_CERT needs its private key; give OUTBOX_TLS_KEY, usually as OUTBOX_TLS_KEY_FILE`},
		{"OUTBOX_PUBLISH_URL=kafka+tls://h OUTBOX_TLS_KEY=hush",
			`OUTBOX_TLS_KEY needs its certificate; give OUTBOX_TLS_CERT, usually as OUTBOX_TLS_CERT_FILE`},
		{"OUTBOX_PUBLISH_URL=kafka+tls://h OUTBOX_TLS_KEY=hush OUTBOX_TLS_CERT=hush",
			`OUTBOX_TLS_CERT and OUTBOX_TLS_KEY are no pair of PEM texts; to name files use OUTBOX_TLS_CERT_FILE and OUTBOX_TLS_KEY_FILE`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=GSSAPI OUTBOX_KAFKA_SASL_USERNAME=u OUTBOX_KAFKA_SASL_PASSWORD=hush",
			`OUTBOX_KAFKA_SASL_MECHANISM="GSSAPI" is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=PLAIN",
			`OUTBOX_KAFKA_SASL_MECHANISM="PLAIN" needs a user; give OUTBOX_KAFKA_SASL_USERNAME and OUTBOX_KAFKA_SASL_PASSWORD`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=PLAIN OUTBOX_KAFKA_SASL_USERNAME=u",
			`OUTBOX_KAFKA_SASL_USERNAME needs a password; give OUTBOX_KAFKA_SASL_PASSWORD, usually as OUTBOX_KAFKA_SASL_PASSWORD_FILE`},
		{"OUTBOX_KAFKA_SASL_USERNAME=u OUTBOX_KAFKA_SASL_PASSWORD=hush",
			`OUTBOX_KAFKA_SASL_USERNAME needs a mechanism; give OUTBOX_KAFKA_SASL_MECHANISM as PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER",
			`OUTBOX_KAFKA_SASL_MECHANISM="OAUTHBEARER" needs a token; give OUTBOX_KAFKA_OAUTH_TOKEN_FILE, or OUTBOX_KAFKA_OAUTH_TOKEN_URL with OUTBOX_KAFKA_OAUTH_CLIENT_ID and OUTBOX_KAFKA_OAUTH_CLIENT_SECRET`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER OUTBOX_KAFKA_OAUTH_TOKEN=hush OUTBOX_KAFKA_SASL_PASSWORD=hush",
			`OUTBOX_KAFKA_SASL_MECHANISM="OAUTHBEARER" has no use for OUTBOX_KAFKA_SASL_PASSWORD; remove one of them`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER OUTBOX_KAFKA_OAUTH_TOKEN=hush OUTBOX_KAFKA_OAUTH_CLIENT_SECRET=hush",
			`OUTBOX_KAFKA_OAUTH_TOKEN has no use for OUTBOX_KAFKA_OAUTH_CLIENT_SECRET; remove one of them`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER OUTBOX_KAFKA_OAUTH_TOKEN_URL=https://id/token",
			`OUTBOX_KAFKA_OAUTH_TOKEN_URL="https://id/token" needs client credentials; give OUTBOX_KAFKA_OAUTH_CLIENT_ID and OUTBOX_KAFKA_OAUTH_CLIENT_SECRET, usually as OUTBOX_KAFKA_OAUTH_CLIENT_SECRET_FILE, or OUTBOX_KAFKA_OAUTH_CLIENT_ASSERTION_FILE`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER OUTBOX_KAFKA_OAUTH_TOKEN_URL=id/token OUTBOX_KAFKA_OAUTH_CLIENT_ID=c OUTBOX_KAFKA_OAUTH_CLIENT_SECRET=hush", `OUTBOX_KAFKA_OAUTH_TOKEN_URL="id/token" is no URL of a token endpoint; write https://host/path, without a user`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER OUTBOX_KAFKA_OAUTH_TOKEN=hush OUTBOX_KAFKA_OAUTH_EXTENSIONS=a",
			`OUTBOX_KAFKA_OAUTH_EXTENSIONS="a" holds "a", which is no extension; write name=value, the name of letters`},
		{"OUTBOX_KAFKA_OAUTH_SCOPE=s",
			`OUTBOX_KAFKA_OAUTH_SCOPE="s" is for OAUTHBEARER; give OUTBOX_KAFKA_SASL_MECHANISM as OAUTHBEARER, or remove it`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=OAUTHBEARER OUTBOX_KAFKA_OAUTH_TOKEN_URL=https://id/token OUTBOX_KAFKA_OAUTH_CLIENT_ID=c " +
			"OUTBOX_KAFKA_OAUTH_CLIENT_SECRET=hush OUTBOX_KAFKA_OAUTH_CLIENT_ASSERTION=hush",
			`OUTBOX_KAFKA_OAUTH_CLIENT_SECRET is a second proof beside OUTBOX_KAFKA_OAUTH_CLIENT_ASSERTION; keep one of them`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=AWS_MSK_IAM OUTBOX_KAFKA_SASL_PASSWORD=hush",
			`OUTBOX_KAFKA_SASL_MECHANISM="AWS_MSK_IAM" has no use for OUTBOX_KAFKA_SASL_PASSWORD; remove one of them`},
		{"OUTBOX_KAFKA_SASL_MECHANISM=AWS_MSK_IAM OUTBOX_KAFKA_OAUTH_TOKEN=hush",
			`OUTBOX_KAFKA_OAUTH_TOKEN is for OAUTHBEARER; give OUTBOX_KAFKA_SASL_MECHANISM as OAUTHBEARER, or remove it`},
		{"OUTBOX_KAFKA_AWS_REGION=eu-west-1",
			`OUTBOX_KAFKA_AWS_REGION="eu-west-1" is for AWS_MSK_IAM; give OUTBOX_KAFKA_SASL_MECHANISM as AWS_MSK_IAM, or remove it`},
		{"OUTBOX_PUBLISH_URL=amqps://h OUTBOX_AMQP_OAUTH_CLIENT_ID=c",
			`OUTBOX_AMQP_OAUTH_CLIENT_ID needs a token; give OUTBOX_AMQP_OAUTH_TOKEN_FILE, or OUTBOX_AMQP_OAUTH_TOKEN_URL with OUTBOX_AMQP_OAUTH_CLIENT_ID and OUTBOX_AMQP_OAUTH_CLIENT_SECRET`},
		{"OUTBOX_PUBLISH_URL=amqps://u:hush@h OUTBOX_AMQP_OAUTH_TOKEN=hush",
			`OUTBOX_PUBLISH_URL holds a password beside OUTBOX_AMQP_OAUTH_TOKEN; keep one of them`},
		{"OUTBOX_PUBLISH_URL=amqps://h OUTBOX_AMQP_OAUTH_TOKEN=hush OUTBOX_AMQP_SASL_MECHANISM=AMQPLAIN",
			`OUTBOX_AMQP_SASL_MECHANISM="AMQPLAIN" has no use for OUTBOX_AMQP_OAUTH_TOKEN, which goes in place of a password; remove one of them`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_AMQP_OAUTH_TOKEN=hush",
			`OUTBOX_AMQP_OAUTH_TOKEN is for AMQP, but OUTBOX_PUBLISH_URL is not; remove one of them`},
		{"OUTBOX_KAFKA_COMPRESSION=brotli", `OUTBOX_KAFKA_COMPRESSION="brotli" is not one of none, gzip, snappy, lz4, zstd`},
		{"OUTBOX_KAFKA_PARTITIONER=fnv", `OUTBOX_KAFKA_PARTITIONER="fnv" is not one of murmur2, crc32, fnv1a`},
		{"OUTBOX_KAFKA_SASL_PASSWORD=hush", `OUTBOX_KAFKA_SASL_PASSWORD needs a user; give OUTBOX_KAFKA_SASL_USERNAME`},
		{"OUTBOX_NATS_TOKEN=hush", `OUTBOX_NATS_TOKEN is for NATS, but OUTBOX_PUBLISH_URL is not; remove one of them`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_TOKEN=hush OUTBOX_NATS_NKEY=hush",
			`OUTBOX_NATS_TOKEN is a second credential beside OUTBOX_NATS_NKEY; keep one of them`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_TLS_FIRST=true",
			`OUTBOX_NATS_TLS_FIRST="true" has no effect without TLS; write OUTBOX_PUBLISH_URL with nats+tls://`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_STREAM=S OUTBOX_NATS_MODE=core",
			`OUTBOX_NATS_STREAM="S" has no effect while OUTBOX_NATS_MODE is core; remove one of them`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_MSG_ID_PREFIX=shop OUTBOX_NATS_MODE=core",
			`OUTBOX_NATS_MSG_ID_PREFIX="shop" has no effect while OUTBOX_NATS_MODE is core; remove one of them`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_MSG_ID_PREFIX=café",
			`OUTBOX_NATS_MSG_ID_PREFIX="café" has a blank or a character that is not ASCII; write a name such as shop or shop.eu`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_STREAM=a.b",
			`OUTBOX_NATS_STREAM="a.b" is no name of a stream; those have no space, dot, star, > or slash`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_JS_DOMAIN=hub OUTBOX_NATS_MODE=core",
			`OUTBOX_NATS_JS_DOMAIN="hub" has no effect while OUTBOX_NATS_MODE is core; remove one of them`},
		{"OUTBOX_KAFKA_TIMESTAMP=column:", `OUTBOX_KAFKA_TIMESTAMP="column:" is no time of a record; write insert, now or column:NAME`},
		{"OUTBOX_PAYLOAD_ENCODING=base32", `OUTBOX_PAYLOAD_ENCODING="base32" is not one of none, base64, hex`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_JS_DOMAIN=a.b",
			`OUTBOX_NATS_JS_DOMAIN="a.b" is no name of a JetStream domain; those have no blank, dot, star or >`},
		{"OUTBOX_PUBLISH_URL=nats://h OUTBOX_NATS_INBOX_PREFIX=_INBOX.",
			`OUTBOX_NATS_INBOX_PREFIX="_INBOX." is no beginning of subjects; write one of at most 128 characters without wildcards or a dot at its end, such as _INBOX_shop`},
		{"OUTBOX_PUBLISH_URL=wss://h OUTBOX_NATS_TLS_FIRST=true",
			`OUTBOX_NATS_TLS_FIRST="true" has no effect over WebSocket, where TLS always comes first; remove it`},
		{"OUTBOX_PUBLISH_URL=ws://h OUTBOX_TLS_SERVER_NAME=x",
			`OUTBOX_TLS_SERVER_NAME has no effect without TLS; write OUTBOX_PUBLISH_URL with wss:// or remove the setting`},
		{"OUTBOX_PUBLISH_URL=ws://h/path?a=b", `OUTBOX_PUBLISH_URL has parameters after a ?, which only AMQP URLs have`},
		{"OUTBOX_PUBLISH_URL=nats://u:hush@h OUTBOX_NATS_TOKEN=hush",
			`OUTBOX_PUBLISH_URL holds a user beside OUTBOX_NATS_TOKEN; keep one of them`},

		{"OUTBOX_BATCH_SIZE=5 OUTBOX_BATCH_SIZE_FILE=" + many,
			`OUTBOX_BATCH_SIZE is given twice, also as OUTBOX_BATCH_SIZE_FILE; remove one of them`},
		{"OUTBOX_BATCH_SIZE_FILE=" + many, `OUTBOX_BATCH_SIZE="many" (from the file ` + many +
			`) is not a whole number; write digits only, such as 1000`},
		{"OUTBOX_BATCH_SIZE_FILE=" + missing, `OUTBOX_BATCH_SIZE_FILE="` + missing +
			`" is a file that gives no value: no such file or directory; check the path, its rights and its content`},
		{"OUTBOX_BATCH_SIZE_FILE=" + empty, `OUTBOX_BATCH_SIZE_FILE="` + empty +
			`" is a file that gives no value: it is empty; check the path, its rights and its content`},
		{"OUTBOX_DATABASE_URL= OUTBOX_DATABASE_URL_FILE=" + missing,
			`OUTBOX_DATABASE_URL_FILE="` + missing +
				`" is a file that gives no value: no such file or directory; check the path, its rights and its content`},

		{"OUTBOX_DATABSE_URL=hush", `OUTBOX_DATABSE_URL is no setting; did you mean OUTBOX_DATABASE_URL?`},
		{"OUTBOX_KAFKA_PASSWORD=hush", `OUTBOX_KAFKA_PASSWORD is no setting; did you mean OUTBOX_KAFKA_SASL_PASSWORD?`},
		{"OUTBOX_BATCHSIZE_FILE=x", `OUTBOX_BATCHSIZE_FILE is no setting; did you mean OUTBOX_BATCH_SIZE_FILE?`},
		{"OUTBOX_TOPICS=x", `OUTBOX_TOPICS is no setting; did you mean OUTBOX_TOPIC?`},
		{"OUTBOX_SOMETHING_ELSE=x", `OUTBOX_SOMETHING_ELSE is no setting; remove it, or see outbox-relay help settings`},
		{"OUTBOX_DESTINATION_ORDERS_TOPIC=x",
			`OUTBOX_DESTINATION_ORDERS_TOPIC is no setting; it names a destination that OUTBOX_DESTINATIONS does not list`},
		{"OUTBOX_DESTINATIONS=orders OUTBOX_DESTINATION_ORDERS_TOPCI=x",
			`OUTBOX_DESTINATION_ORDERS_TOPCI is no setting; did you mean OUTBOX_DESTINATION_ORDERS_TOPIC or OUTBOX_DESTINATION_ORDERS_TOPICS?`},
		{"OUTBOX_DESTINATIONS=a,,b", `OUTBOX_DESTINATIONS="a,,b" has an empty item; write names with single commas between them`},
		{"OUTBOX_DESTINATIONS=a,a", `OUTBOX_DESTINATIONS="a,a" names "a" twice`},
		{"OUTBOX_DESTINATIONS=Orders",
			`OUTBOX_DESTINATIONS="Orders" holds a name that cannot be used, "Orders"; write lower-case letters, digits and single - or _, starting with a letter`},
		{"OUTBOX_DESTINATIONS=a-b,a_b", `OUTBOX_DESTINATIONS="a-b,a_b" holds a-b and a_b, whose variables would have the same names`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_TOPICS=x,!",
			`OUTBOX_DESTINATION_A_TOPICS="x,!" holds the empty pattern "!"; write topics, with * for any text and ! before those to leave out`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=a_at",
			`OUTBOX_DESTINATION_A_COLUMNS="a_at" is not a list of pairs; write our name, a colon and yours: key:aggregate_id,order:seq`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=attempt:a",
			`OUTBOX_DESTINATION_A_COLUMNS="attempt:a" lacks relayed_at, without which nothing says which rows are done; write relayed_at:NAME, and the others if there are such columns`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=relayed_at:a,key:k,topic:t",
			`OUTBOX_DESTINATION_A_COLUMNS="relayed_at:a,key:k,topic:t" maps key, which is the same for all destinations; a destination's own are attempt, relayed_at, failed_at, last_error, updated_at`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=relayed_at:a,failed_at:a",
			`OUTBOX_DESTINATION_A_COLUMNS="relayed_at:a,failed_at:a" takes one column for two parts; each needs a column of its own`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=relayed_at:a,failed_at:failed_at",
			`OUTBOX_DESTINATION_A_COLUMNS="relayed_at:a,failed_at:failed_at" takes the column failed_at, which is the table's failed_at; each must be a column of the destination's own`},
		{"OUTBOX_COLUMNS=header.trace:t OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=relayed_at:t",
			`OUTBOX_DESTINATION_A_COLUMNS="relayed_at:t" takes the column t, which is the table's header.trace; each must be a column of the destination's own`},
		{"OUTBOX_KEY=column:k OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=relayed_at:k",
			`OUTBOX_DESTINATION_A_COLUMNS="relayed_at:k" takes the column k, which is the table's key; each must be a column of the destination's own`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_A_COLUMNS=relayed_at:x,failed_at:y OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x",
			`OUTBOX_DESTINATION_B_COLUMNS="relayed_at:x" has x in common with OUTBOX_DESTINATION_A_COLUMNS, and not the others; the columns of two destinations are the same, or all different`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_A_COLUMNS=relayed_at:x,failed_at:y OUTBOX_DESTINATION_B_COLUMNS=relayed_at:y,failed_at:x",
			`OUTBOX_DESTINATION_B_COLUMNS="relayed_at:y,failed_at:x" has x, y in common with OUTBOX_DESTINATION_A_COLUMNS, and not the others; the columns of two destinations are the same, or all different`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x OUTBOX_DESTINATION_B_FAILED_OF=b",
			`OUTBOX_DESTINATION_B_FAILED_OF="b" names the destination itself; name the one whose rows it is to take`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x OUTBOX_DESTINATION_B_RELAYED_OF=c",
			`OUTBOX_DESTINATION_B_RELAYED_OF="c" names no destination; those of OUTBOX_DESTINATIONS are a, b`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_B_FAILED_OF=a",
			`OUTBOX_DESTINATION_B_FAILED_OF="a" needs columns of its own; set OUTBOX_DESTINATION_B_COLUMNS`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x OUTBOX_DESTINATION_B_FAILED_OF=a OUTBOX_DESTINATION_B_RELAYED_OF=a",
			`OUTBOX_DESTINATION_B_RELAYED_OF="a" contradicts OUTBOX_DESTINATION_B_FAILED_OF; remove one of them`},
		{"OUTBOX_DESTINATIONS=a,b OUTBOX_DESTINATION_A_COLUMNS=relayed_at:y OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x " +
			"OUTBOX_DESTINATION_B_FAILED_OF=a",
			`OUTBOX_DESTINATION_B_FAILED_OF="a" names a, whose columns have no failed_at, so that no row fails there; add failed_at to them`},
		{"OUTBOX_DESTINATIONS=a,b,c OUTBOX_DESTINATION_B_COLUMNS=relayed_at:x OUTBOX_DESTINATION_B_FAILED_OF=a " +
			"OUTBOX_DESTINATION_C_COLUMNS=relayed_at:x",
			`OUTBOX_DESTINATION_C_COLUMNS="relayed_at:x" is the same as OUTBOX_DESTINATION_B_COLUMNS, and these two do not take the same rows; give each columns of its own`},
		{"OUTBOX_SETTLE=delete OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_COLUMNS=relayed_at:x",
			`OUTBOX_DESTINATION_A_COLUMNS="relayed_at:x" contradicts OUTBOX_SETTLE=delete, which deletes a row as soon as one destination has it; remove one of them`},
		{"OUTBOX_DESTINATIONS=a OUTBOX_PUBLISH_URL=",
			`OUTBOX_DESTINATION_A_PUBLISH_URL is required, or OUTBOX_PUBLISH_URL for all destinations; ` + forms},
		{"OUTBOX_DESTINATIONS=a OUTBOX_DESTINATION_A_BACKOFF_MIN=2m",
			`OUTBOX_DESTINATION_A_BACKOFF_MIN="2m" is more than OUTBOX_DESTINATION_A_BACKOFF_MAX, which is 60s; lower the one or raise the other`},
	} {
		env := strings.Split(c.env, " OUTBOX_")
		for i := range env[1:] {
			env[i+1] = "OUTBOX_" + env[i+1]
		}
		got := problemsOf(t, env...)
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.env, strings.Join(got, "\n     "), c.want)
		}
		if strings.Contains(strings.Join(got, ""), "hush") {
			t.Errorf("%s: the secret is in the problem", c.env)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parse([]string{"OUTBOX_BATCH_SIZE=x", "OUTBOX_SHARDS=0", "OUTBOX_TABEL=t", "OUTBOX_TOPIC={"}, true)
	want := `configuration: 6 problems
  OUTBOX_BATCH_SIZE="x" is not a whole number; write digits only, such as 1000
  OUTBOX_SHARDS="0" is too small; the least is 1
  OUTBOX_DATABASE_URL is required; give a PostgreSQL URL such as postgres://user:password@host:5432/database, or its file as OUTBOX_DATABASE_URL_FILE
  OUTBOX_PUBLISH_URL is required; ` + brokerForms + `
  OUTBOX_TOPIC="{" has a { without its }; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ for a brace
  OUTBOX_TABEL is no setting; did you mean OUTBOX_TABLE?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// A mistake in a setting that several destinations inherit is one problem.
func TestInheritedProblemOnce(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, "OUTBOX_DESTINATIONS=a,b", "OUTBOX_MAX_ATTEMPTS=none")
	if len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestCertificatePair(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	env := []string{"OUTBOX_PUBLISH_URL=amqps://h", "OUTBOX_TLS_CA=" + cert, "OUTBOX_TLS_CERT_FILE=" + file(t, cert),
		"OUTBOX_TLS_KEY_FILE=" + file(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))}
	if got := problemsOf(t, env...); got != nil {
		t.Errorf("a sound pair: %q", got)
	}
}
