package e2e

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// TestRabbitMistakes: mistakes in the settings of RabbitMQ name the setting, each in its own way. TestMistakes and
// TestOwnBroker in publisher/amqp have what else can be wrong.
func TestRabbitMistakes(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	secure := freeLocal(t)
	_, port, err := net.SplitHostPort(secure)
	if err != nil {
		t.Fatal(err)
	}
	set := newServices(t, "secure-rabbitmq", "SERVICES_MODE=native", "SERVICES_RABBITMQ_CONF="+strings.Join([]string{
		"listeners.ssl.default = 127.0.0.1:" + port,
		"ssl_options.cacertfile = " + s.write(t, "ca.pem", s.authority.PEM),
		"ssl_options.certfile = " + s.write(t, "server.pem", s.server.Cert),
		"ssl_options.keyfile = " + s.write(t, "server.key", s.server.Key),
		"auth_mechanisms.1 = PLAIN",
	}, "\n"))
	set.run("up", "rabbitmq")
	plain := set.address("TEST_AMQP_URL")
	u, err := url.Parse(plain)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	right := u.User.Username() + ":" + password + "@"
	ca := "OUTBOX_TLS_CA_FILE=" + s.write(t, "ca.pem", s.authority.PEM)
	stranger := "OUTBOX_TLS_CA_FILE=" + s.write(t, "other.pem", tlstest.NewAuthority(t).PEM)
	client := s.authority.Issue(t, tlstest.Leaf{Name: "relay"})
	external := settings{
		ca, "OUTBOX_AMQP_SASL_MECHANISM=EXTERNAL", "OUTBOX_TLS_CERT_FILE=" + s.write(t, "client.pem", client.Cert),
		"OUTBOX_TLS_KEY_FILE=" + s.write(t, "client.key", client.Key),
	}
	const elsewhere = "host and port in OUTBOX_PUBLISH_URL"
	checkMistakes(t, map[string]mistake{
		"wrong password": {
			"amqps://" + u.User.Username() + ":wrong-hunter2@" + secure + "/",
			settings{ca},
			[]string{"login", "user and password"},
		},
		"EXTERNAL not there": {
			"amqps://" + secure + "/", external,
			[]string{"does not offer", "EXTERNAL", "rabbitmq_auth_mechanism_ssl"},
		},
		"AMQPLAIN not there": {
			"amqps://" + right + secure + "/",
			settings{ca, "OUTBOX_AMQP_SASL_MECHANISM=AMQPLAIN"},
			[]string{"does not offer", "AMQPLAIN", "OUTBOX_AMQP_SASL_MECHANISM"},
		},
		"wrong CA": {"amqps://" + right + secure + "/", settings{stranger}, []string{"unknown authority", "OUTBOX_TLS_CA"}},
		"another name": {
			"amqps://" + right + strings.Replace(secure, "localhost", "127.0.0.1", 1) + "/",
			settings{ca},
			[]string{"not accepted", "OUTBOX_TLS_SERVER_NAME"},
		},
		"nobody":     {"amqp://" + right + nobody + "/", nil, []string{nobody, "host and port"}},
		"PostgreSQL": {"amqp://" + right + hostOf(t, "TEST_DATABASE_URL") + "/", nil, []string{elsewhere}},
	})
}
