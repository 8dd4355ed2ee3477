package amqp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
)

// publishFrom publishes from several goroutines at a time, until everything is accepted. It returns the classes of all
// other answers.
func publishFrom(t *testing.T, p *amqp.Publisher, topic string, calls int) map[publisher.Class]int {
	t.Helper()
	others := map[publisher.Class]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for call := range calls {
		group.Go(func() {
			left := numbered(200, 20, topic)
			for i := range left {
				left[i].ID = fmt.Sprint(call, "-", i)
				left[i].Key = fmt.Appendf(left[i].Key, "-%d", call)
			}
			for len(left) > 0 && t.Context().Err() == nil {
				var later []publisher.Message
				for i, err := range p.Publish(within(t, 20*time.Second), left) {
					if err == nil {
						continue
					}
					mu.Lock()
					others[publisher.ClassOf(err)]++
					mu.Unlock()
					later = append(later, left[i])
				}
				left = later
			}
		})
	}
	group.Wait()
	return others
}

// as returns a publisher that logs in as another user.
func (o *ownBroker) as(t *testing.T, user, exchange string) *amqp.Publisher {
	config := o.harness.config()
	config.Exchange = exchange
	config.URL = func() (string, error) {
		return strings.Replace(o.harness.url, "guest:guest", user+":"+url.QueryEscape(password), 1), nil
	}
	p := amqp.New(config)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// The broker allows a user one channel, or three that two publishers share. It answers one more by closing the
// connection, with all that is on the wire. Whatever the limit, no outcome is unknown, nothing is spent, and there is
// no copy. Without any channel the destination is unavailable, and the reason is named.
func (o *ownBroker) channelLimits(t *testing.T) {
	h := o.harness
	ch := channel(t, h.conn)
	if err := ch.ExchangeDeclare("limited", amqp091.ExchangeFanout, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 2, 3, 4} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			topic := h.Topic(t)
			if err := ch.QueueBind(topic, "", "limited", false, nil); err != nil {
				t.Fatal(err)
			}
			user := fmt.Sprint("limited-", limit)
			o.addUser(t, user, "")
			o.manage(t, http.MethodPut, "user-limits/"+user+"/max-channels", fmt.Sprintf(`{"value": %d}`, limit))
			p := o.as(t, user, "limited")
			for range 2 {
				if others := publishFrom(t, p, topic, 4); len(others) > 0 {
					t.Errorf("answers beside the accepted ones: %v", others)
				}
				if err := p.Ping(within(t, 10*time.Second)); err != nil {
					t.Error(err)
				}
			}
			if got := len(h.Received(t, topic, 1600)); got != 1600 {
				t.Errorf("1600 messages arrived as %d", got)
			}
			found := shown(p.Examine(within(t, 20*time.Second), nil))
			if strings.Contains(found, "error ") {
				t.Errorf("the report with few channels: %v", found)
			}
			// The report has given its channel back. RabbitMQ counts a channel for a moment after its end, and may close the
			// connection because of the next one.
			await(t, func() bool { return p.Ping(within(t, 10*time.Second)) == nil })
			if limit > 1 { // channels that the report has used are opened again when they are needed
				return
			}
			err := o.as(t, user, "limited").Publish(within(t, 10*time.Second), numbered(1, 1, topic))[0]
			want(t, "a message of a publisher that gets no channel", err, publisher.Unavailable)
			if err == nil || publisher.ScopeOf(err) != publisher.ScopeDestination ||
				!strings.Contains(err.Error(), "raise that limit") {
				t.Error(err)
			}
		})
	}
}

// The right to some routing keys of an exchange is taken away while they flow beside others. The broker closes the
// channel under all of them. What may have got there twice is told, and there is no other copy.
func (o *ownBroker) rightTakenAway(t *testing.T) {
	h := o.harness
	ch := channel(t, h.conn)
	if err := ch.ExchangeDeclare("rights", amqp091.ExchangeTopic, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	topic := h.Topic(t)
	if err := ch.QueueBind(topic, "#", "rights", false, nil); err != nil {
		t.Fatal(err)
	}
	o.addUser(t, "partly", "")
	const topicRights = "topic-permissions/%2F/partly"
	p := o.as(t, "partly", "rights")
	told := 0
	var sent []publisher.Message
	publish := func(messages []publisher.Message) (left []publisher.Message) {
		for i, err := range p.Publish(within(t, 20*time.Second), messages) {
			if publisher.Republished(err) {
				told++
			}
			switch class := publisher.ClassOf(err); {
			case class == publisher.Accepted:
			case class == publisher.Topology && strings.HasPrefix(messages[i].Topic, "b."):
				left = append(left, messages[i])
			default:
				t.Errorf("a message for %s is %v: %v", messages[i].Topic, class, err)
			}
		}
		return left
	}
	for round := range 4 {
		messages := numbered(600, 0, "")
		for i := range messages {
			messages[i].ID = fmt.Sprint(round, "-", i)
			messages[i].Topic = fmt.Sprintf("%s.%d", []string{"a", "b"}[i%2], i%20)
		}
		sent = append(sent, messages...)
		if round%2 == 1 {
			o.manage(t, http.MethodPut, topicRights, `{"exchange": "rights", "write": "^a\\.", "read": ".*"}`)
		}
		left := publish(messages)
		for range 3 { // tries of what is held close nothing under others
			before := told
			left = publish(append(left, numbered(1, 0, "a.0")[0]))
			sent = append(sent, numbered(1, 0, "a.0")...)
			if told > before {
				t.Errorf("a try of held messages makes %d copies", told-before)
			}
		}
		if round%2 == 1 {
			o.manage(t, http.MethodDelete, topicRights, "")
		}
		for len(left) > 0 {
			left = publish(left)
		}
	}
	got := h.Received(t, topic, len(sent))
	if len(got) > len(sent)+told {
		t.Errorf("%d messages arrived as %d, and %d were told to be there twice", len(sent), len(got), told)
	}
	t.Logf("%d copies, %d told", len(got)-len(sent), told)
}

// The node allows a connection few channels, or one. The limit is agreed on at the login, so that nothing is refused.
func (o *ownBroker) channelMax(t *testing.T) {
	defer o.ctl(t, "eval", "application:set_env(rabbit, channel_max, 2047).")
	for _, limit := range []int{1, 2} {
		o.ctl(t, "eval", fmt.Sprintf("application:set_env(rabbit, channel_max, %d).", limit))
		topic := o.harness.Topic(t)
		p := o.harness.open(t, nil)
		if others := publishFrom(t, p, topic, 4); len(others) > 0 {
			t.Errorf("with %d channels, answers beside the accepted ones: %v", limit, others)
		}
		if err := p.Ping(within(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
		if got := len(o.harness.Received(t, topic, 800)); got != 800 {
			t.Errorf("800 messages arrived as %d", got)
		}
		_ = p.Close()
	}
}

// A virtual host that does not run is named as such, with what helps.
func (o *ownBroker) vhostDown(t *testing.T) {
	o.manage(t, http.MethodPut, "vhosts/down", "")
	o.manage(t, http.MethodPut, "permissions/down/guest", `{"configure": ".*", "write": ".*", "read": ".*"}`)
	// The broker starts again what was killed, and gives up in the end. One command waits for that, because each takes
	// seconds.
	const stop = `Kill = fun() -> case rabbit_vhost_sup_sup:get_vhost_sup(<<"down">>) of ` +
		`{ok, S} -> [exit(P, kill) || {_, P, _, _} <- supervisor:which_children(S), is_pid(P)]; _ -> ok end end, ` +
		`Stop = fun(Again) -> Kill(), timer:sleep(300), ` +
		`case rabbit_vhost_sup_sup:is_vhost_alive(<<"down">>) of true -> Again(Again); false -> down end end, Stop(Stop).`
	if out := strings.TrimSpace(o.ctl(t, "eval", stop)); out != "down" {
		t.Fatalf("the virtual host is %s", out)
	}
	config := o.harness.config()
	config.URL = func() (string, error) { return strings.TrimRight(o.harness.url, "/") + "/down", nil }
	p := amqp.New(config)
	defer p.Close()
	if err := p.Ping(within(t, 10*time.Second)); err == nil || !strings.Contains(err.Error(), "is down") {
		t.Errorf("ping says %v, want that the virtual host is down", err)
	}
}
