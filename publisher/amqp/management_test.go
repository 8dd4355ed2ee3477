package amqp_test

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/amqp"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// examined returns the findings of Examine. A queue's policies are reported some seconds after the queue was created,
// and are waited for.
func examined(t *testing.T, config amqp.Config, addresses ...publisher.Address) string {
	t.Helper()
	p := amqp.New(config)
	defer p.Close()
	text := ""
	await(t, func() bool {
		text = shown(p.Examine(within(t, 20*time.Second), addresses))
		return !strings.Contains(text, "policies are not reported")
	})
	if strings.Contains(text, "wrong remedy") || strings.Contains(text, password) ||
		strings.Contains(text, "guest:guest") {
		t.Errorf("a finding without its remedy, or with a secret:\n%s", text)
	}
	return text
}

func (h *harness) config() amqp.Config {
	return amqp.Config{URL: func() (string, error) { return h.url, nil }, Exchange: h.exchange}
}

// managed returns a configuration that names the management interface.
func (h *harness) managed(t *testing.T) amqp.Config {
	t.Helper()
	config, url := h.config(), services.Endpoint(t, "TEST_AMQP_MANAGEMENT_URL")
	config.Management = func() (string, error) { return url, nil }
	return config
}

func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the findings lack %q:\n%s", part, text)
		}
	}
}

// What queues guarantee, on the default exchange.
func TestExamineQueues(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeQuorum)
	ch := channel(t, h.conn)
	for name, c := range map[string]struct {
		durable, autoDelete bool
		arguments           amqp091.Table
		says                []string // NAME stands for the name of the queue
	}{
		"quorum": {
			durable: true, arguments: amqp091.Table{"x-queue-type": "quorum"},
			says: []string{
				"ok durability queue NAME: it is durable",
				"warning replication queue NAME: it is a quorum queue, of whose 1 members 1 are there",
			},
		},
		"stream": {
			durable: true, arguments: amqp091.Table{"x-queue-type": "stream", "x-max-length-bytes": 1000000},
			says: []string{
				"warning replication queue NAME: it is a stream queue, of whose 1 members 1 are there",
				"ok limits queue NAME: drops its oldest messages by age or size",
			},
		},
		"classic": {durable: true, says: []string{
			"ok durability queue NAME",
			"warning replication queue NAME: it is a classic queue: the loss of one node",
		}},
		"transient": {says: []string{
			"error durability queue NAME: it is not durable",
		}},
		"auto-delete": {
			durable: true, autoDelete: true,
			says: []string{"warning durability queue NAME: it is deleted with what it holds when its last consumer"},
		},
		"expires": {
			durable: true, arguments: amqp091.Table{"x-expires": 3600000},
			says: []string{"warning durability queue NAME: it is deleted with what it holds"},
		},
		"drops": {
			durable: true, arguments: amqp091.Table{"x-max-length": 10},
			says: []string{"warning limits queue NAME: it throws away what was confirmed"},
		},
		"drops bytes": {
			durable: true, arguments: amqp091.Table{"x-max-length-bytes": 5000000},
			says: []string{"warning limits queue NAME: it throws away what was confirmed"},
		},
		"rejects": {
			durable: true, arguments: amqp091.Table{"x-max-length": 10, "x-overflow": "reject-publish"},
			says: []string{"ok limits queue NAME: it throws nothing away: rows wait"},
		},
		"rejects and dead-letters": {
			durable: true, arguments: amqp091.Table{"x-max-length": 10, "x-overflow": "reject-publish-dlx"},
			says: []string{"warning limits queue NAME: when it is full, each try of a row puts a copy"},
		},
		"dead-letters": {
			durable: true, arguments: amqp091.Table{
				"x-max-length": 10, "x-message-ttl": 1000,
				"x-dead-letter-exchange": "amq.fanout",
			},
			says: []string{
				"ok limits queue NAME: it throws nothing away: rows wait, or messages go to its dead-letter exchange",
			},
		},
		"forgets": {
			durable: true, arguments: amqp091.Table{"x-message-ttl": 60000},
			says: []string{"warning limits queue NAME: it throws away what was confirmed"},
		},
	} {
		queue := fmt.Sprint("amqp test/", name, "?", rand.Text()) // characters that a URL must escape
		if _, err := ch.QueueDeclare(queue, c.durable, c.autoDelete, false, false, c.arguments); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var parts []string
			for _, part := range c.says {
				parts = append(parts, strings.ReplaceAll(part, "NAME", strconv.Quote(queue)))
			}
			text := examined(t, h.managed(t), publishertest.Addresses(queue)...)
			lacks := func(part string) bool { return !strings.Contains(text, part) }
			// Members are reported some time after a queue was created.
			for end := time.Now().Add(20 * time.Second); slices.ContainsFunc(parts, lacks) && time.Now().Before(end); {
				text = examined(t, h.managed(t), publishertest.Addresses(queue)...)
			}
			says(t, text, append(parts, "ok management")...)
		})
	}
}

// The queues that are bound to exchanges of all kinds. Which of them a routing key reaches is not looked at.
func TestExamineBindings(t *testing.T) {
	t.Parallel()
	h := newHarness(t, amqp091.ExchangeTopic, amqp091.QueueTypeQuorum)
	ch := channel(t, h.conn)
	one, two := h.Unknown(t), h.Unknown(t)
	h.create(t, one, nil) // also bound by its name
	h.create(t, two, nil)
	headers, empty := declareExchange(t, h.conn, "headers"), declareExchange(t, h.conn, "direct")
	transient, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for exchange, queue := range map[string]string{h.exchange: one, headers: transient.Name} {
		if err := ch.QueueBind(queue, "#.placed", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	says(t, examined(t, h.managed(t), publisher.Address{Topic: "order.placed", Exchange: h.exchange},
		publisher.Address{Topic: "x", Exchange: empty}, publisher.Address{Topic: "x", Exchange: headers}),
		"ok durability "+h.exchange+": this exchange is durable, of type topic",
		"ok topic "+h.exchange+": 2 queues are bound to it",
		`ok durability queue "`+one+`": it is durable`,
		`ok durability queue "`+two+`": it is durable`,
		fmt.Sprintf("error durability queue %q: it is not durable, or is exclusive", transient.Name),
		"warning topic "+empty+": nothing is bound to this exchange")
}

// An exchange without bindings may have an alternate exchange, and an exchange may disappear by itself.
func TestExamineAlternate(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeQuorum)
	ch := channel(t, h.conn)
	queue, other := h.Topic(t), declareExchange(t, h.conn, "fanout")
	if err := ch.QueueBind(queue, "", other, false, nil); err != nil {
		t.Fatal(err)
	}
	h.exchange = "amqp-test-" + rand.Text()
	if err := ch.ExchangeDeclare(h.exchange, "direct", false, false, false, false,
		amqp091.Table{"alternate-exchange": other}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.ExchangeDelete(h.exchange, false, false) })
	says(t, examined(t, h.managed(t), publishertest.Addresses("x")...),
		"warning topic "+h.exchange+": nothing is bound to this exchange: its rows are held, unless it has an alternate",
		"warning durability "+h.exchange+": this exchange is not durable")
}

// Each mistake in the setting is one warning. The rest is examined in any case.
func TestExamineManagementMistakes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, "", amqp091.QueueTypeQuorum)
	topic, real := h.Topic(t), hostOf(t, "TEST_AMQP_MANAGEMENT_URL")
	closed := listen(t)
	_ = closed.Close()
	silent := listen(t)
	t.Cleanup(func() { _ = silent.Close() })
	serve := func(handler http.HandlerFunc) string {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server.URL
	}
	for name, c := range map[string]struct{ url, says string }{
		"wrong password": {"http://guest:" + password + "@" + real, `answers 401 Unauthorized to user "guest"`},
		"unknown user":   {"http://nobody:" + password + "@" + real, `answers 401 Unauthorized to user "nobody"`},
		"nobody":         {"http://" + closed.Addr().String(), "connection refused"},
		"silence":        {"http://" + silent.Addr().String(), "were looked at: "},
		"port of AMQP":   {"http://" + hostOf(t, "TEST_AMQP_URL"), "were looked at: "},
		"no TLS there":   {"https://" + real, "were looked at: "},
		"another path":   {"http://" + real + "/prefix", "were looked at: "},
		"another website": {
			serve(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }),
			"is not that of RabbitMQ's management interface",
		},
		"redirect":       {serve(http.RedirectHandler("http://"+real+"/api", http.StatusFound).ServeHTTP), "302"},
		"unknown scheme": {"amqp://" + real, "unsupported protocol scheme"},
		"no scheme":      {"guest:" + password + "@" + real, "Management is not of the form"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := h.config()
			config.Management = func() (string, error) { return c.url, nil }
			text := examined(t, config, publishertest.Addresses(topic)...)
			says(t, text, c.says, "ok topic")
			text = strings.ReplaceAll(text, "warning authentication", "") // the broker has no TLS
			if n := strings.Count(text, "warning "); n != 1 || strings.Count(text, "warning management") != 1 ||
				strings.Contains(text, "error ") {
				t.Errorf("%d warnings instead of one of the management interface:\n%s", n, text)
			}
		})
	}
	says(t, examined(t, h.config(), publishertest.Addresses(topic)...),
		"warning management : whether queues are bound, durable and replicated, and what a full one does, was not looked at")
}

// managedExamined tests what needs users of the test's own, and TLS.
func (o *ownBroker) managedExamined(t *testing.T) {
	topic := o.harness.Topic(t)
	config := o.harness.config()
	for name, tag := range map[string]string{
		"untagged": "", "looker": "management", "monitor": "monitoring",
		"outsider": "monitoring",
	} {
		if name == "outsider" {
			o.user(t, name, fmt.Sprintf(`"password": %q`, password), tag)
		} else {
			o.addUser(t, name, tag)
		}
	}
	for name, part := range map[string]string{
		"untagged": o.management + ` answers 401 Unauthorized to user "untagged"`,
		"looker":   "ok management",
		"monitor":  "ok management",
		"outsider": o.management + ` answers 401 Unauthorized to user "outsider"`,
	} {
		config.Management = func() (string, error) {
			return "http://" + name + ":" + url.QueryEscape(password) + "@" + o.management, nil
		}
		text := examined(t, config, publishertest.Addresses(topic)...)
		says(t, text, part)
		if shown := strings.Contains(text, `ok durability queue "`+topic); shown != (name == "looker" || name == "monitor") {
			t.Errorf("%s sees the queue: %v\n%s", name, shown, text)
		}
	}

	config.Management = func() (string, error) { return "https://" + o.secureManagement, nil } // guest, by default
	says(t, examined(t, config, publishertest.Addresses(topic)...), "warning management", "unknown authority")
	config.TLS = func() (*tls.Config, error) {
		return &tls.Config{RootCAs: o.authority.Pool, MinVersion: tls.VersionTLS12}, nil
	}
	says(t, examined(t, config, publishertest.Addresses(topic)...),
		"ok management", `ok durability queue "`+topic)
}
