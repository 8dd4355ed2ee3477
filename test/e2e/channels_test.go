package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// limitedUser creates a user of RabbitMQ who may open a number of channels, and returns the function that changes it.
func limitedUser(t *testing.T, name, password string, channels int) (limit func(int)) {
	t.Helper()
	management := endpoint(t, "TEST_AMQP_MANAGEMENT_URL")
	call := func(method, path, body string) {
		t.Helper()
		address := management + "/api/" + path
		request, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode >= 300 {
			t.Fatalf("%s %s: %s", method, path, response.Status)
		}
	}
	call(http.MethodPut, "users/"+name, fmt.Sprintf(`{"password": %q, "tags": ""}`, password))
	t.Cleanup(func() { call(http.MethodDelete, "users/"+name, "") })
	call(http.MethodPut, "permissions/%2F/"+name, `{"configure": ".*", "write": ".*", "read": ".*"}`)
	limit = func(channels int) {
		call(http.MethodPut, "user-limits/"+name+"/max-channels", fmt.Sprintf(`{"value": %d}`, channels))
	}
	limit(channels)
	return limit
}

// TestChannelLimit: RabbitMQ allows the relay's user one channel, and answers a second one by closing the connection
// with all that is on the wire. A replica relays with one, and no row is sent twice or spends its only attempt. A
// second replica, which gets none, says why and releases its shards.
func TestChannelLimit(t *testing.T) {
	t.Parallel()
	b := newRabbit(t, endpoint(t, "TEST_AMQP_URL"))
	topic, outbox := b.topic(t), newTable(t)
	limited, err := url.Parse(b.url())
	if err != nil {
		t.Fatal(err)
	}
	const password = "hunter2"
	user := "limited-" + strings.ToLower(topic)
	limit := limitedUser(t, user, password, 1)
	limited.User = url.UserPassword(user, password)
	env := outbox.env(limited.String(), "OUTBOX_MAX_ATTEMPTS=1", "OUTBOX_OWNER_TTL=2s")
	first := startRelay(t, env)
	first.awaitReady()
	for i := range 10 {
		outbox.insert(topic, 300*i, 300, 50)
	}
	outbox.awaitDrained()

	second := startRelay(t, env)
	second.awaitNotReady("destination default", "number of channels", "raise that limit")
	took := await(t, "the first one has all shards", func() bool { return first.owns(16) && second.owns(0) })
	t.Logf("shards were given over after %v", took.Round(time.Millisecond))
	outbox.insert(topic, 3000, 1000, 50)
	outbox.awaitDrained()
	limit(20)
	second.awaitReady()
	outbox.insert(topic, 4000, 1000, 50)
	outbox.awaitDrained()
	check(t, outbox, b.received(t, topic))
	outbox.checkUnspent(everyRow)
	if lost := strings.Count(first.Log(), "rabbitmq connection lost"); lost > 1 {
		t.Errorf("%d connections were lost", lost)
	}
	first.stop()
	second.stop()
}
