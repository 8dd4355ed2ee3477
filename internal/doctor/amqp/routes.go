package amqp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/rabbitmq"
)

// An exchangeInfo is what the management interface reports about an exchange.
type exchangeInfo struct {
	Type       string
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Arguments  rabbitmq.Options
	Policy     string // the policy's name

	bindings []bindingInfo
}

// A bindingInfo is one binding from an exchange.
type bindingInfo struct {
	Destination string
	Kind        string `json:"destination_type"` // queue or exchange
	Key         string `json:"routing_key"`
}

// A routes finds the queues that messages reach, by the bindings, as the broker would.
type routes struct {
	management *rabbitmq.Management
	exchanges  map[string]*exchangeInfo // already looked up
}

// An unknownRoute reports that an exchange's routing of a message cannot be determined.
type unknownRoute struct{ exchange, reason string }

func (u *unknownRoute) Error() string { return u.reason }

// queues returns the queues that a message reaches, sorted. The error is an unknownRoute, or one of the management interface.
func (r *routes) queues(ctx context.Context, exchange, key string) ([]string, error) {
	found := map[string]bool{}
	if err := r.follow(ctx, exchange, key, map[string]bool{}, found); err != nil {
		return nil, err
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// follow adds to found the queues to which the exchange routes a message. seen holds the exchanges on the way: each gets a
// message once.
func (r *routes) follow(ctx context.Context, name, key string, seen, found map[string]bool) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	if name == "" { // the default exchange, here as an alternate exchange
		found[key] = true
		return nil
	}
	exchange, err := r.exchange(ctx, name)
	if errors.Is(err, rabbitmq.ErrAbsent) { // an alternate exchange need not exist
		return nil
	} else if err != nil {
		return err
	}
	matches, err := exchange.matcher(name)
	if err != nil {
		return err
	}
	taken := false
	for _, b := range exchange.bindings {
		if !matches(b.Key, key) {
			continue
		}
		taken = true
		if b.Kind == "queue" {
			found[b.Destination] = true
		} else if err := r.follow(ctx, b.Destination, key, seen, found); err != nil {
			return err
		}
	}
	if taken {
		return nil
	}
	alternate, err := r.alternate(ctx, name, exchange)
	if err != nil || alternate == "" {
		return err
	}
	return r.follow(ctx, alternate, key, seen, found)
}

// exchange returns an exchange with its bindings.
func (r *routes) exchange(ctx context.Context, name string) (*exchangeInfo, error) {
	if known := r.exchanges[name]; known != nil {
		return known, nil
	}
	e := &exchangeInfo{}
	if err := r.management.Get(ctx, e, "", "exchanges", r.management.Vhost, name); err != nil {
		return nil, err
	}
	const columns = "destination,destination_type,routing_key"
	if err := r.management.Get(ctx, &e.bindings, columns, "exchanges", r.management.Vhost, name, "bindings", "source"); err != nil {
		return nil, err
	}
	r.exchanges[name] = e
	return e, nil
}

// matcher returns how the exchange compares a binding's key with a routing key.
func (e *exchangeInfo) matcher(name string) (func(pattern, key string) bool, error) {
	switch e.Type {
	case amqp091.ExchangeDirect:
		return func(pattern, key string) bool { return pattern == key }, nil
	case amqp091.ExchangeFanout:
		return func(string, string) bool { return true }, nil
	case amqp091.ExchangeTopic:
		return matchTopic, nil
	default:
		return nil, &unknownRoute{name, fmt.Sprintf("it is of type %.100q, which does not go by the routing key alone", e.Type)}
	}
}

// alternate returns the exchange that receives the messages which this one routes nowhere, "" for none.
func (r *routes) alternate(ctx context.Context, name string, e *exchangeInfo) (string, error) {
	const option = "alternate-exchange"
	if alternate, ok := e.Arguments[option].(string); ok || e.Policy == "" {
		return alternate, nil
	}
	var policy struct{ Definition rabbitmq.Options }
	if err := r.management.Get(ctx, &policy, "", "policies", r.management.Vhost, e.Policy); err != nil {
		if _, refused := errors.AsType[*rabbitmq.Refusal](err); refused {
			return "", &unknownRoute{name, "it has a policy, which may name an alternate exchange and which this user may not see"}
		}
		return "", err
	}
	alternate, _ := policy.Definition[option].(string)
	return alternate, nil
}

// matchTopic compares a routing key with the pattern of a topic exchange: words between dots, * for one
// word, # for any number of them.
func matchTopic(pattern, key string) bool {
	words := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, ".")
	}
	given := words(key)
	// reached[i] says that the part of the pattern so far matches the first i words.
	reached := make([]bool, len(given)+1)
	reached[0] = true
	for _, word := range words(pattern) {
		next := make([]bool, len(reached))
		for i := range reached {
			switch {
			case word == "#":
				next[i] = reached[i] || i > 0 && next[i-1]
			case i > 0 && (word == "*" || word == given[i-1]):
				next[i] = reached[i-1]
			}
		}
		reached = next
	}
	return reached[len(given)]
}
