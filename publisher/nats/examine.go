package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Names of what is examined, as scripts read them.
const (
	checkReach          = "reach"
	checkAuthentication = "authentication"
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

// oldestMinor is the first 2.x version of the server that the relay is meant for.
const oldestMinor = 10

var _ publisher.Examiner = (*Publisher)(nil)

// Examine looks at the server, the login, JetStream, and the streams of the subjects; see
// [publisher.Examiner].
func (p *Publisher) Examine(ctx context.Context, addresses []publisher.Address) []finding.Finding {
	e := &examination{publisher: p}
	link, err := p.borrow(ctx, p.reconnected)
	if err != nil {
		e.unreachable(err)
		return e.List
	}
	defer link.release()
	e.link = link
	defer context.AfterFunc(ctx, link.conn.interrupt)()
	e.server()
	if p.config.Core {
		e.Warn(checkJetStream, "", "OUTBOX_NATS_MODE is core: a row counts as relayed when a server has read it, nothing stores it",
			"write jetstream, unless rows may be lost")
	} else if !e.account(ctx) {
		return e.List
	}
	seen := map[string]bool{}
	for _, address := range addresses {
		if err := checkSubject(address.Topic, link.inboxes); err != nil {
			e.Fail(checkTopic, fmt.Sprintf("%.100q", address.Topic), err.Error()+", so its rows fail", "correct the rows' topic, or OUTBOX_TOPIC")
		} else if !p.config.Core {
			e.topic(ctx, address.Topic, seen)
		}
	}
	return e.List
}

// An examination gathers findings.
type examination struct {
	publisher *Publisher
	link      *link
	finding.List
}

// unreachable tells why no server can be used.
func (e *examination) unreachable(err error) {
	trouble, ok := errors.AsType[*trouble](err)
	if !ok {
		e.Fail(checkReach, "", err.Error(), "start the server, or correct host and port in OUTBOX_PUBLISH_URL")
		return
	}
	check := checkReach
	if trouble.login {
		check = checkAuthentication
	}
	e.Fail(check, "", trouble.what(), trouble.remedy)
}

// server looks at what the connection itself shows.
func (e *examination) server() {
	nc, address := e.link.nc, e.link.server.address
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

// account looks at JetStream in the account. It reports whether streams can be looked at.
func (e *examination) account(ctx context.Context) bool {
	m, denied, err := e.link.request(ctx, e.link.infoSubject(), nil)
	switch {
	case err != nil:
		e.Fail(checkJetStream, "", err.Error(), "look at the server's log")
		return false
	case denied:
		e.Warn(checkPermission, "", "the user may not ask for the account's JetStream limits, so they were not looked at",
			"grant publish on "+e.link.infoSubject())
		return true
	}
	if withoutJetStream(m) {
		e.Warn(checkJetStream, "",
			"the account has no JetStream of its own: its rows are held, unless streams take them through an import or a leaf node, which cannot "+
				"be looked at from here",
			"enable JetStream in the server and for the account, set OUTBOX_NATS_JS_DOMAIN to the domain of the streams, or see in the relay's "+
				"/readyz?verbose whether rows are held")
		return false
	}
	if err := e.link.readInfo(m); err != nil {
		e.Fail(checkJetStream, "", err.Error(), "enable JetStream in the server and for the account")
		return false
	}
	var info struct {
		usage
		Tiers map[string]usage `json:"tiers"`
	}
	if json.Unmarshal(m.Data, &info) != nil {
		return true // readInfo has read it
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
