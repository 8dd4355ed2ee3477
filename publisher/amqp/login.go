package amqp

import (
	"strings"

	"github.com/rabbitmq/amqp091-go"
)

// A login asks the broker to report refused credentials. Without this, RabbitMQ waits for three seconds and closes the
// connection without an answer. The library writes the client's capabilities itself, just before it asks for the
// response.
type login struct {
	amqp091.Authentication
	properties amqp091.Table // what the client reports about itself to the broker
}

func (l login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp091.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}

// The SASL mechanisms.
const (
	mechanismPlain    = "PLAIN"
	mechanismAMQPlain = "AMQPLAIN"
	mechanismExternal = "EXTERNAL"
)

// newLogin returns the way to log in: the given mechanism, or else that of the URL, or else PLAIN.
func newLogin(uri amqp091.URI, properties amqp091.Table, mechanism string) (way login, err error) {
	way = login{uri.PlainAuth(), properties}
	if mechanism == "" && len(uri.AuthMechanism) > 0 {
		mechanism = uri.AuthMechanism[0]
	}
	switch strings.ToUpper(mechanism) {
	case "", mechanismPlain:
	case mechanismAMQPlain:
		way.Authentication = uri.AMQPlainAuth()
	case mechanismExternal:
		way.Authentication = &amqp091.ExternalAuth{}
	default:
		err = unavailable("bad publish URL",
			"auth_mechanism %q in the publish URL is not one of plain, amqplain, external", mechanism)
	}
	return way, err
}
