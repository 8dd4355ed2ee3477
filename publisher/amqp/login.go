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

// logins returns the ways to log in: the given mechanism, or else those that the URL allows, or else PLAIN.
func logins(uri amqp091.URI, properties amqp091.Table, mechanism string) ([]amqp091.Authentication, error) {
	var ways []amqp091.Authentication
	mechanisms := uri.AuthMechanism
	if mechanism != "" {
		mechanisms = []string{mechanism}
	}
	for _, mechanism := range mechanisms {
		switch strings.ToUpper(mechanism) {
		case mechanismPlain:
			ways = append(ways, login{uri.PlainAuth(), properties})
		case mechanismAMQPlain:
			ways = append(ways, login{uri.AMQPlainAuth(), properties})
		case mechanismExternal:
			ways = append(ways, login{&amqp091.ExternalAuth{}, properties})
		default:
			return nil, unavailable("bad publish URL",
				"auth_mechanism %q in the publish URL is not one of plain, amqplain, external", mechanism)
		}
	}
	if ways == nil {
		ways = append(ways, login{uri.PlainAuth(), properties})
	}
	return ways, nil
}
