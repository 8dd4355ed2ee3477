package rabbitmq

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/test/bench/publish/tlsproxy"
)

// throughProxies returns two publishers that reach the broker through a proxy in this process, one of them with TLS up
// to the proxy. Any broker can therefore be used, and the measurement includes the cost of TLS at both ends.
func throughProxies(ctx context.Context, broker string) (secure, plain *ours, err error) {
	uri, err := amqp091.ParseURI(broker)
	if err != nil {
		return nil, nil, fmt.Errorf("the address is not an AMQP URL")
	}
	target := net.JoinHostPort(uri.Host, fmt.Sprint(uri.Port))
	server, client, err := tlsproxy.Configs()
	if err != nil {
		return nil, nil, err
	}
	open := func(server *tls.Config, config amqp.Config, scheme string) (*ours, error) {
		host, stop, err := tlsproxy.Start(ctx, server, target)
		if err != nil {
			return nil, err
		}
		address := url.URL{
			Scheme: scheme, User: url.UserPassword(uri.Username, uri.Password), Host: host,
			Path: "/" + url.PathEscape(uri.Vhost),
		}
		if uri.Vhost == "/" {
			address.Path = "/"
		}
		config.URL = func() (string, error) { return address.String(), nil }
		o, err := newOurs(ctx, config)
		if err != nil {
			stop()
			return nil, err
		}
		o.after = stop
		return o, nil
	}
	if plain, err = open(nil, amqp.Config{}, "amqp"); err != nil {
		return nil, nil, err
	}
	if secure, err = open(server, amqp.Config{TLS: func() (*tls.Config, error) {
		return client, nil
	}}, "amqps"); err != nil {
		plain.close()
		return nil, nil, err
	}
	return secure, plain, nil
}
