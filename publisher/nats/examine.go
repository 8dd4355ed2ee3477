package nats

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/publisher/internal/connect"
)

// Names of checks besides those in package inspect, as scripts read them.
const (
	checkJetStream  = "jetstream"
	checkStream     = "stream"
	checkStorage    = "storage"
	checkRetention  = "retention"
	checkDuplicates = "duplicate_window"
)

var _ publisher.Examiner = (*Publisher)(nil)

// Examine implements [publisher.Examiner]: it examines the server, the login, JetStream, and the streams of the
// subjects. What it finds is so found over the very connection that rows use.
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	link, err := p.keeper.Borrow(ctx, true)
	if err != nil {
		return connect.Unusable("", err, "start the server, or correct host and port in "+p.names.Of("Servers"))
	}
	defer link.Users.Add(-1)
	e := &examination{link: link, api: p.api()}
	e.server()
	if !e.account(ctx) {
		return e.List
	}
	legal := func(to publisher.Address) error { return checkSubject(to.Topic, link.inboxes) }
	e.topics(ctx, inspect.Legal(&e.List, addresses, p.names, legal))
	return e.List
}

// An examination gathers findings.
type examination struct {
	link    *link
	api     string // prefix of the subjects at which JetStream answers requests
	streams bool   // the account has streams, as far as that is known
	finding.List
}

// server examines what the connection itself shows.
func (e *examination) server() {
	nc, address := e.link.nc, e.link.server.address
	e.Well(inspect.Reach, address, "answers")
	inspect.Tested(&e.List, address, "NATS server "+nc.ConnectedServerVersion(), "NATS server", 2, 10)
	_, err := nc.TLSConnectionState()
	inspect.Protection(&e.List, address, nc.AuthRequired(), err == nil,
		"turn TLS and logins on in the server, and write nats+tls://")
	e.Well(inspect.Size, address, fmt.Sprintf("takes messages of up to %d bytes with headers (max_payload); larger "+
		"rows fail", nc.MaxPayload()))
}

// account examines JetStream in the account. It reports whether streams can be examined.
func (e *examination) account(ctx context.Context) bool {
	m, denied, err := e.link.request(ctx, e.api+askAccount, nil)
	var info struct{ Streams int }
	without := false
	if err == nil && !denied {
		without, err = e.link.checkAccount(m)
		_ = json.Unmarshal(m.Data, &info) // checkAccount has read it
	}
	e.streams = denied || info.Streams > 0
	switch {
	case err != nil:
		e.Fail(checkJetStream, "", err.Error(), "enable JetStream in the server and for the account")
	case denied:
		e.Warn(inspect.Permission, "", "the user may not ask for the account's JetStream limits, so they were not "+
			"looked at", "grant publish on "+e.api+askAccount)
	case without:
		e.Warn(checkJetStream, "", "the account has no JetStream of its own: its rows are held, unless streams take "+
			"them through an import or a leaf node, which cannot be looked at from here", "enable JetStream for the "+
			"account, set "+e.link.p.names.Of("Domain")+", or see in /readyz?verbose whether rows are held")
	default:
		e.Well(checkJetStream, "", "JetStream is on for the account")
	}
	return err == nil && !without
}
