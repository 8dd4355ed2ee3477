// Package nats examines a NATS server: the login, JetStream, and the streams that take the rows.
package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	inspectnats "github.com/outbox-relay/outbox-relay/internal/inspect/nats"
	"github.com/outbox-relay/outbox-relay/internal/setting"
	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Names of checks, as scripts read them.
const (
	checkReach          = inspect.Reach
	checkAuthentication = inspect.Authentication
	checkVersion        = "version"
	checkJetStream      = "jetstream"
	checkSize           = "message_size"
	checkTopic          = "topic"
	checkPermission     = "permission"
	checkStream         = "stream"
	checkReplication    = "replication"
	checkStorage        = "storage"
	checkLimits         = "limits"
	checkDuplicates     = "duplicate_window"
)

// oldestMinor is the minor version of the oldest 2.x server that the relay supports.
const oldestMinor = 10

// Examine examines the server, the login, JetStream, and the streams of the subjects, over a connection that connect makes; see
// [publisher.Examiner].
func Examine(ctx context.Context, connect func(context.Context) (*inspectnats.Connection, error), names setting.Names,
	addresses []publisher.Address,
) []finding.Finding {
	e := &examination{names: names}
	link, err := connect(ctx)
	if err != nil {
		e.List = append(e.List, inspect.Unusable("", err, "start the server, or correct host and port in "+names.Of("Servers")))
		return e.List
	}
	defer link.Release()
	e.link = link
	e.server()
	if link.Core {
		e.Warn(checkJetStream, "", names.Of("Core")+" is set: a row counts as relayed when a server has read it, nothing stores it",
			"publish to JetStream, unless rows may be lost")
	} else if !e.account(ctx) {
		return e.List
	}
	seen := map[string]bool{}
	for _, address := range addresses {
		if err := link.CheckSubject(address.Topic); err != nil {
			e.Fail(checkTopic, fmt.Sprintf("%.100q", address.Topic), err.Error()+", so its rows fail",
				"correct the rows' topic, or "+names.Of("Topic"))
		} else if !link.Core {
			e.topic(ctx, address.Topic, seen)
		}
	}
	return e.List
}

// An examination gathers findings.
type examination struct {
	link  *inspectnats.Connection
	names setting.Names
	finding.List
}

// server examines what the connection itself shows.
func (e *examination) server() {
	nc, address := e.link, e.link.Address
	e.Well(checkReach, address, "answers")
	version := nc.ConnectedServerVersion()
	if major, minor, ok := parseVersion(version); ok && (major < 2 || major == 2 && minor < oldestMinor) {
		e.Warn(checkVersion, address, "the server's version is "+version+", which is older than the relay is meant for",
			"upgrade to 2.10 or newer")
	} else {
		e.Well(checkVersion, address, "NATS server "+version)
	}
	_, err := nc.TLSConnectionState()
	secure := err == nil
	switch login := nc.AuthRequired(); {
	case login && secure:
		e.Well(checkAuthentication, address, "the login succeeds, over TLS")
	case login:
		e.Warn(checkAuthentication, address, "the login succeeds, but without TLS its credentials or the messages can be read on the way",
			"turn TLS on in the server, and write nats+tls://")
	case secure:
		e.Well(checkAuthentication, address, "TLS, and the server asks for no login")
	default:
		e.Warn(checkAuthentication, address, "neither TLS nor a login: anybody on the way can read and change the messages",
			"turn both on in the server, and write nats+tls://")
	}
	e.Well(checkSize, address, fmt.Sprintf("takes messages of up to %d bytes with headers (max_payload); larger rows fail", nc.MaxPayload()))
}

// account examines JetStream in the account. It reports whether streams can be examined.
func (e *examination) account(ctx context.Context) bool {
	m, denied, err := e.link.Request(ctx, e.infoSubject(), nil)
	switch {
	case err != nil:
		e.Fail(checkJetStream, "", err.Error(), "look at the server's log")
		return false
	case denied:
		e.Warn(checkPermission, "", "the user may not ask for the account's JetStream limits, so they were not looked at",
			"grant publish on "+e.infoSubject())
		return true
	}
	without, err := e.link.CheckAccount(m)
	if without {
		e.Warn(checkJetStream, "",
			"the account has no JetStream of its own: its rows are held, unless streams take them through an import or a leaf node, which cannot "+
				"be looked at from here",
			"enable JetStream in the server and for the account, set "+e.names.Of("Domain")+" to the domain of the streams, or see in the relay's "+
				"/readyz?verbose whether rows are held")
		return false
	}
	if err != nil {
		e.Fail(checkJetStream, "", err.Error(), "enable JetStream in the server and for the account")
		return false
	}
	var info struct {
		usage
		Tiers map[string]usage `json:"tiers"`
	}
	if json.Unmarshal(m.Data, &info) != nil {
		return true // CheckAccount has read it
	}
	if len(info.Tiers) == 0 {
		e.usage("", info.usage)
	}
	for name, tier := range info.Tiers {
		e.usage(name, tier)
	}
	return true
}

// usage is how much of an account's limits is used up.
type usage struct {
	Memory, Storage uint64
	Limits          struct {
		Memory  int64 `json:"max_memory"`
		Storage int64 `json:"max_storage"`
	} `json:"limits"`
}

func (e *examination) usage(tier string, u usage) {
	for _, kind := range []struct {
		name  string
		used  uint64
		limit int64
	}{{"disk", u.Storage, u.Limits.Storage}, {"memory", u.Memory, u.Limits.Memory}} {
		if kind.limit > 0 && nearly(kind.used, kind.limit) {
			e.Warn(checkJetStream, tier, fmt.Sprintf("the account uses %d of %d bytes of JetStream's %s: when it is full, rows are held", kind.used,
				kind.limit, kind.name),
				"make room in its streams, or raise the account's limit")
			return
		}
	}
	e.Well(checkJetStream, tier, "JetStream is on for the account")
}

// nearly reports whether nine tenths of a limit are used.
func nearly(used uint64, limit int64) bool { return float64(used) >= 0.9*float64(limit) }

func parseVersion(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(parts[1])
	return major, minor, err == nil
}
