package amqp

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/errtext"
	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// managed examines exchanges and queues over RabbitMQ's management interface, an HTTP API, which reports what AMQP does
// not. It is only read.
func (e *examination) managed(ctx context.Context) {
	setting := e.p.names.Of("Management")
	if e.p.config.Management == nil {
		e.Warn(checkManagement, "", "whether queues are bound, durable and replicated, and what a full one does, was "+
			"not looked at: AMQP does not report it", "set "+setting)
		return
	}
	err := e.openManagement()
	for _, name := range e.exchanges {
		if err == nil {
			err = e.exchange(ctx, name)
		}
	}
	for _, name := range e.queues {
		if err == nil {
			err = e.queue(ctx, name, true)
		}
	}
	if e.client != nil {
		e.client.CloseIdleConnections()
	}
	e.Add(checkManagement, "",
		finding.OKIf(err == nil, "exchanges and queues were looked at"),
		finding.WarnIf(true, "not all exchanges and queues were looked at: "+errtext.Line(err), "check "+setting+
			" (usually port 15672, with TLS 15671), that the plugin rabbitmq_management is enabled, and that the user "+
			"has the tag monitoring (rabbitmqctl set_user_tags) and access to the vhost"))
}

// managementTime is how long one request may take.
const managementTime = 4 * time.Second

// openManagement prepares requests. If the configured URL has no user and password, those of the connection are used: a
// token is then the password, with any user name. The error contains neither.
func (e *examination) openManagement() error {
	config, setting := &e.p.config, e.p.names.Of("Management")
	text, err := config.Management()
	if err != nil {
		return fmt.Errorf("%s %w", setting, err)
	}
	e.management, err = url.Parse(text)
	if err != nil || e.management.Host == "" { // the library's own error quotes the URL
		return errors.New(setting + " is not of the form http://user:password@host:15672 or https://host:15671")
	}
	var settings *tls.Config
	if config.TLS != nil {
		if settings, err = config.TLS(); err != nil {
			return err
		}
	}
	e.client = &http.Client{
		Timeout:   managementTime,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings},
		// No other host must receive the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	// With a certificate as the login, user and password are only the library's defaults.
	if e.management.User == nil && config.Mechanism != mechanismExternal {
		e.management.User = url.UserPassword(cmp.Or(e.conn.uri.Username, nameless), e.conn.uri.Password)
	}
	return nil
}

// get reads the object at a path of the API; the path's elements may contain any characters. The error does not quote
// the URL.
func (e *examination) get(ctx context.Context, into any, path ...string) error {
	at := e.management.JoinPath("api")
	for _, element := range path {
		at = at.JoinPath(url.PathEscape(element))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", at.Host, failed.Err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s to user %q", at.Host, response.Status, at.User.Username())
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("the answer of %s is not that of RabbitMQ's management interface: %w", at.Host, err)
	}
	return nil
}

// mostQueues is how many of an exchange's queues are looked at: it may have thousands.
const mostQueues = 100

// exchange examines an exchange and the queues that are bound to it.
func (e *examination) exchange(ctx context.Context, name string) error {
	var found struct {
		Type       string
		Durable    bool
		AutoDelete bool `json:"auto_delete"`
	}
	var bindings []struct {
		Destination string
		Kind        string `json:"destination_type"`
	}
	path := []string{"exchanges", e.conn.uri.Vhost, name}
	err := e.get(ctx, &found, path...)
	if err == nil {
		err = e.get(ctx, &bindings, append(path, "bindings", "source")...)
	}
	if err != nil {
		return err
	}
	var queues []string
	for _, b := range bindings {
		if b.Kind == "queue" {
			queues = append(queues, b.Destination)
		}
	}
	slices.Sort(queues)
	queues = slices.Compact(queues)
	e.Add(checkDurability, name,
		finding.WarnIf(!found.Durable || found.AutoDelete, "this exchange is not durable, or is deleted with its last "+
			"binding (auto-delete): then its rows are held", "declare it again, durable and without auto-delete"),
		finding.OKIf(true, "this exchange is durable, of type "+found.Type))
	e.Add(inspect.Topic, name,
		finding.WarnIf(len(bindings) == 0, "nothing is bound to this exchange: its rows are held, unless it has an "+
			"alternate exchange", "bind a queue for them"),
		finding.OKIf(true, fmt.Sprintf("%d queues are bound to it, and %d at most are looked at; RabbitMQ decides "+
			"which of them a row reaches", len(queues), mostQueues)))
	for _, queue := range queues[:min(len(queues), mostQueues)] {
		if err := e.queue(ctx, queue, len(queues) == 1); err != nil {
			return err
		}
	}
	return nil
}

// A queueInfo is what the management interface reports about a queue.
type queueInfo struct {
	Type       string
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Exclusive  bool
	Arguments  any
	// Policy is the combination of all policies, nil if it is unknown: it comes with the statistics, some seconds
	// after the queue was created.
	Policy  any      `json:"effective_policy_definition"`
	Members []string // members of a quorum queue or stream, including those that are down
	Online  []string
}

// option returns an option from the queue's arguments or, failing that, from its policies; nil if there is none. The
// API may write an empty table as a list.
func (q *queueInfo) option(name string) any {
	arguments, _ := q.Arguments.(map[string]any)
	policy, _ := q.Policy.(map[string]any)
	return cmp.Or(arguments["x-"+name], policy[name])
}

// queue reports what an acknowledgement by a queue guarantees: whether its messages survive a restart of the broker and
// the loss of a node, and whether it throws away what nobody has read. only means that a message is in no other queue.
func (e *examination) queue(ctx context.Context, name string, only bool) error {
	subject, q := fmt.Sprintf("queue %.100q", name), &queueInfo{}
	if err := e.get(ctx, q, "queues", e.conn.uri.Vhost, name); err != nil {
		return err
	}
	const lost = "it is not durable, or is exclusive: what it holds is lost with the broker or a connection"
	const again = "declare it again, durable, best as a quorum queue, without exclusive, auto-delete and expires"
	lasts := q.Durable && !q.Exclusive
	e.Add(checkDurability, subject,
		finding.FailIf(!lasts && only, lost, again),
		finding.WarnIf(!lasts, lost, again),
		finding.WarnIf(q.AutoDelete || q.option("expires") != nil, "it is deleted with what it holds when its last "+
			"consumer leaves (auto-delete), or when nobody has used it for some time (expires)", again),
		finding.OKIf(true, "it is durable"))

	// Members are known only of quorum queues and streams, and some seconds after the queue was created.
	members, online, kind := len(q.Members), len(q.Online), "it is a "+q.Type+" queue"
	if members > 0 {
		kind += fmt.Sprintf(", of whose %d members %d are there", members, online)
	}
	e.Add(inspect.Replication, subject,
		finding.WarnIf(online < members, kind+": without most of them it takes no message, and its rows are held",
			"bring back the nodes that hold it"),
		finding.WarnIf(q.Type == amqp091.QueueTypeClassic || members == 1 || members == 2, kind+": the loss of one "+
			"node takes what it holds along, or holds its rows", "use a quorum queue (x-queue-type quorum) with three "+
			"members (rabbitmq-queues add_member), or a stream (rabbitmq-streams add_replica)"),
		finding.OKIf(true, kind))

	// RabbitMQ confirms a message that it drops later. A stream keeps what was read, and drops messages by design.
	bounded := q.option("max-length") != nil || q.option("max-length-bytes") != nil
	drops := bounded && q.option("overflow") != "reject-publish" || q.option("message-ttl") != nil
	e.Add(inspect.Limits, subject,
		finding.OKIf(q.Type == amqp091.QueueTypeStream, "drops its oldest messages by age or size (max-age, "+
			"max-length-bytes); without either, a stream grows until the disk is full"),
		finding.WarnIf(q.option("overflow") == "reject-publish-dlx", "when it is full, each try of a row puts a copy "+
			"into the dead-letter exchange", "set overflow to reject-publish, which only holds rows"),
		finding.WarnIf(drops && q.option("dead-letter-exchange") == nil, "it throws away what was confirmed and not "+
			"read, when it is full (max-length, overflow drop-head) or after some time (message-ttl)", "set overflow "+
			"to reject-publish, which holds rows, and take away message-ttl; or add a dead-letter-exchange"),
		finding.WarnIf(q.Policy == nil, "its policies are not reported: it is some seconds old, or statistics are off",
			"ask again, or see rabbitmqctl list_queues name effective_policy_definition"),
		finding.OKIf(true, "it throws nothing away: rows wait, or messages go to its dead-letter exchange"))
	return nil
}
