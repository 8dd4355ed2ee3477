// Package nats examines a NATS server: the login, JetStream, and the streams that take the rows.
package nats

import (
	"context"
	"fmt"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Names of checks besides those in package inspect, as scripts read them.
const (
	checkJetStream  = "jetstream"
	checkStream     = "stream"
	checkStorage    = "storage"
	checkRetention  = "retention"
	checkDuplicates = "duplicate_window"
)

// oldestMinor is the minor version of the oldest 2.x server that the relay supports.
const oldestMinor = 10

// Examine examines the server, the login, JetStream, and the streams of the subjects, over a connection that connect
// makes; see [publisher.Examiner].
func Examine(ctx context.Context, connect func(context.Context) (*Connection, error), names setting.Names,
	addresses []publisher.Address,
) []finding.Finding {
	e := &examination{names: names}
	link, err := connect(ctx)
	if err != nil {
		e.List = append(e.List, inspect.Unusable("", err, "start the server, or correct host and port "+
			"in "+names.Of("Servers")))
		return e.List
	}
	defer link.Release()
	e.link = link
	e.server()
	if !e.account(ctx) {
		return e.List
	}
	var subjects []string
	for _, address := range addresses {
		if err := link.CheckSubject(address.Topic); err != nil {
			e.Fail(inspect.Topic, fmt.Sprintf("%.100q", address.Topic), err.Error()+", so its rows fail",
				"correct the rows' topic, or "+names.Of("Topic"))
		} else {
			subjects = append(subjects, address.Topic)
		}
	}
	e.topics(ctx, subjects)
	return e.List
}

// An examination gathers findings.
type examination struct {
	link  *Connection
	names setting.Names
	finding.List
}

// server examines what the connection itself shows.
func (e *examination) server() {
	nc, address := e.link, e.link.Address
	e.Well(inspect.Reach, address, "answers")
	version := nc.ConnectedServerVersion()
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	e.Add(inspect.Version, address,
		finding.WarnIf(err == nil && (major < 2 || major == 2 && minor < oldestMinor),
			"the server's version is "+version+", which is older than the relay is meant for",
			"upgrade to 2.10 or newer"),
		finding.OKIf(true, "NATS server "+version))
	_, err = nc.TLSConnectionState()
	inspect.Protection(&e.List, address, nc.AuthRequired(), err == nil, "turn TLS and logins on in the server, and "+
		"write nats+tls://")
	e.Well(inspect.Size, address, fmt.Sprintf("takes messages of up to %d bytes with headers (max_payload); larger "+
		"rows fail", nc.MaxPayload()))
}

// account examines JetStream in the account. It reports whether streams can be examined.
func (e *examination) account(ctx context.Context) bool {
	m, denied, err := e.link.Request(ctx, e.infoSubject(), nil)
	without := false
	if err == nil && !denied {
		without, err = e.link.CheckAccount(m)
	}
	switch {
	case err != nil:
		e.Fail(checkJetStream, "", err.Error(), "enable JetStream in the server and for the account; look at the "+
			"server's log")
		return false
	case denied:
		e.Warn(inspect.Permission, "", "the user may not ask for the account's JetStream limits, so they were not "+
			"looked at", "grant publish on "+e.infoSubject())
		return true
	case without:
		e.Warn(checkJetStream, "", "the account has no JetStream of its own: its rows are held, unless streams take "+
			"them through an import or a leaf node, which cannot be looked at from here",
			"enable JetStream in the server and for the account, set "+e.names.Of("Domain")+" to the domain of the "+
				"streams, or see in the relay's /readyz?verbose whether rows are held")
		return false
	}
	e.Well(checkJetStream, "", "JetStream is on for the account")
	return true
}
