package amqp_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// newTokenKey returns a key to sign tokens with, and its public half for RabbitMQ.
func newTokenKey(t *testing.T) (key *rsa.PrivateKey, public []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// token returns a token that the broker accepts for the given time.
func (o *ownBroker) token(t *testing.T, life time.Duration) string {
	t.Helper()
	part := func(claims map[string]any) string {
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"alg": "RS256", "typ": "JWT", "kid": "test"}) + "." + part(map[string]any{
		"aud": []string{"rabbitmq"}, "sub": "relay", "client_id": "relay", "exp": time.Now().Add(life).Unix(),
		"scope": []string{"rabbitmq.configure:*/*", "rabbitmq.write:*/*", "rabbitmq.read:*/*", "rabbitmq.tag:monitoring"},
	})
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, o.tokens, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// A token expires, on the default exchange and on another one. RabbitMQ refuses what is published and keeps the
// connection. The next token is read from its file.
func (o *ownBroker) expiredToken(t *testing.T) {
	// how long a channel remembers what was allowed
	o.ctl(t, "eval", "application:set_env(rabbit, channel_tick_interval, 500).")
	_, host, _ := strings.Cut(o.harness.url, "@")
	topic := o.harness.Topic(t)
	for name, exchange := range map[string]string{
		"default exchange": "",
		"exchange":         declareExchange(t, o.harness.conn, "fanout"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if exchange != "" {
				if err := channel(t, o.harness.conn).QueueBind(topic, "", exchange, false, nil); err != nil {
					t.Fatal(err)
				}
			}
			path := write(t, t.TempDir(), "url", []byte("amqp://relay:"+o.token(t, 4*time.Second)+"@"+host))
			p := amqp.New(amqp.Config{Exchange: exchange, URL: func() (string, error) {
				url, err := os.ReadFile(path)
				return string(url), err
			}})
			defer p.Close()
			publish := func() error { return p.Publish(within(t, 10*time.Second), numbered(1, 0, topic))[0] }
			want(t, "a message", publish(), publisher.Accepted)
			await(t, func() bool { return publisher.ClassOf(publish()) == publisher.Topology })
			write(t, "", path, []byte("amqp://relay:"+o.token(t, time.Hour)+"@"+host))
			await(t, func() bool { return publish() == nil })
		})
	}
}
