package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// startNATS starts a server inside this process; stop ends it.
func startNATS(options server.Options) (url string, stop func(), err error) {
	options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(&options)
	if err != nil {
		return "", nil, fmt.Errorf("make NATS server: %w", err)
	}
	s.Start()
	stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return "", nil, errors.New("the NATS server does not start")
	}
	return s.ClientURL(), stop, nil
}

// openNATS makes a stream in a server with JetStream inside this process, with its data in dir.
func openNATS(ctx context.Context, topic Topic, dir string) (Broker, error) {
	url, stop, err := startNATS(server.Options{JetStream: true, StoreDir: dir})
	if err != nil {
		return nil, err
	}
	client, err := testkit.OpenNATS(url)
	if err != nil {
		stop()
		return nil, err
	}
	return openKept(ctx, &kept{Broker: client, name: "NATS JetStream", url: url, ends: 1, stop: stop}, topic)
}
