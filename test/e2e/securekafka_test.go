package e2e

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// secureKafka is a Kafka server for one test alone, with a listener for each way to log in. Its certificate is for
// localhost, and its users are relay and other.
type secureKafka struct {
	*kafkaBroker // on the plain listener
	t            testing.TB
	dir          string
	authority    *tlstest.Authority

	secure string // TLS and SASL with PLAIN, SCRAM-SHA-256 or OAUTHBEARER; sessions end
	mutual string // TLS with a client certificate
	clear  string // SASL without TLS
}

// secureSession is how long a session of SASL lasts.
const secureSession = 2 * time.Second

func newSecureKafka(t testing.TB) *secureKafka {
	t.Helper()
	k := &secureKafka{t: t, dir: t.TempDir(), authority: tlstest.NewAuthority(t)}
	k.secure, k.mutual, k.clear = freeLocal(t), freeLocal(t), freeLocal(t)
	server := k.authority.Issue(t, tlstest.Leaf{Name: "localhost"})
	set := newServices(t, "secure-kafka", "SERVICES_MODE=native")
	const plain = `org.apache.kafka.common.security.plain.PlainLoginModule required user_relay="old-hunter2" user_other="other-hunter2";`
	listeners := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,SECURE://%s,MUTUAL://%s,CLEAR://%s", 29092+set.Offset, k.secure,
		k.mutual, k.clear)
	set.Settings = append(set.Settings, "SERVICES_KAFKA_PROPERTIES="+strings.Join([]string{
		fmt.Sprintf("listeners=%s,CONTROLLER://127.0.0.1:%d", listeners, 29093+set.Offset),
		"advertised.listeners=" + listeners,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL,CLEAR:SASL_PLAINTEXT",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + k.write("server.pem", append(server.Key, server.Cert...)),
		"ssl.truststore.type=PEM", "ssl.truststore.location=" + k.write("ca.pem", k.authority.PEM),
		"listener.name.mutual.ssl.client.auth=required",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER",
		"listener.name.clear.plain.sasl.jaas.config=" + plain,
		"listener.name.clear.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"listener.name.clear.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
		"listener.name.secure.plain.sasl.jaas.config=" + plain,
		"listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule " +
			"required;",
		`listener.name.secure.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
		fmt.Sprint("connections.max.reauth.ms=", secureSession.Milliseconds()),
	}, "\n"))
	set.run("up", "kafka")
	k.kafkaBroker = newKafka(t, set.address("TEST_KAFKA_URL"))
	k.setPassword("old-hunter2")
	return k
}

// write writes a file into the test's directory and returns its path.
func (k *secureKafka) write(name string, content []byte) string {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// setPassword sets the password of the user relay for SCRAM.
func (k *secureKafka) setPassword(password string) {
	k.t.Helper()
	const iterations = 4096
	salt := []byte("0123456789abcdef")
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		k.t.Fatal(err)
	}
	response, err := k.client.AlterUserScramCredentials(k.t.Context(),
		&kafka.AlterUserScramCredentialsRequest{Upsertions: []kafka.UserScramCredentialsUpsertion{
			{Name: "relay", Mechanism: kafka.ScramMechanismSha256, Iterations: iterations, Salt: salt, SaltedPassword: salted},
		}})
	if err == nil && len(response.Results) == 1 {
		err = response.Results[0].Error
	}
	if err != nil {
		k.t.Fatalf("set the password: %v", err)
	}
}

// token returns an unsigned token, which Kafka's validator for tests accepts.
func token(subject string, life time.Duration) string {
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now().Unix()
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, subject,
		now-60,
		now+int64(life.Seconds()))) + "."
}

// freeLocal returns a port of localhost on which nothing listens.
func freeLocal(t testing.TB) string {
	t.Helper()
	return strings.Replace(freeAddr(t), "127.0.0.1", "localhost", 1)
}
