package nats

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// api returns the prefix of the subjects on which JetStream answers questions: those of the domain, if there is one.
func (p *Publisher) api() string {
	if p.config.Domain == "" {
		return "$JS.API."
	}
	return "$JS." + p.config.Domain + ".API."
}

// Ping implements [publisher.Publisher]. It asks JetStream for the account's information. A user who may not ask for it
// gets a permission violation, which also shows that the server is there. The answer that the account has no JetStream
// counts as well: the account's messages may go to streams of another account through an import, or to those of another
// server through a leaf node.
//
// It blocks until ctx ends at most. It uses a call of the link for the reply subject, and a check of the link comes
// first (see connect.Keeper), so that a ping never trusts a connection from which nothing has come.
func (p *Publisher) Ping(ctx context.Context) error {
	p.kept.Sweep()
	link, err := p.keeper.Borrow(ctx, true)
	if err != nil {
		return err
	}
	defer link.Users.Add(-1)
	err = link.ping(ctx)
	if ctx.Err() != nil {
		link.doubt()
	}
	return err
}

// ping makes one round trip through JetStream, unless the user may not: the server itself was just greeted. That
// the user may not is remembered as long as the link lives, so that the question is not asked again every few seconds.
func (l *link) ping(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return l.silent(ctx)
	case l.blind.Load():
		return nil
	}
	m, denied, err := l.request(ctx, l.p.api()+"INFO", nil)
	switch {
	case err != nil:
		return err
	case denied:
		l.blind.Store(true)
		return nil
	}
	_, err = l.checkAccount(m)
	return err
}

// request asks JetStream one question. denied means that the user may not ask it. It blocks until the answer, the end
// of the link or that of ctx.
func (l *link) request(ctx context.Context, subject string, question []byte) (
	answer *nats.Msg, denied bool, err error,
) {
	c := l.take()
	defer l.give(c)
	// A question takes the place of message 0 of a call that has no messages.
	if err := l.nc.PublishRequest(subject, c.address(0), question); err != nil {
		return nil, false, l.Lost()
	}
	for {
		select {
		case a := <-c.acks:
			if a.number == c.number && (a.answer != nil || a.denied == subject) {
				return a.answer, a.answer == nil, nil
			}
		case <-l.Ended:
			return nil, false, l.Lost()
		case <-ctx.Done():
			return nil, false, l.silent(ctx)
		}
	}
}

// checkAccount reads JetStream's answer about the account. without means that the account has no JetStream of its own.
// An error says why JetStream does not serve the account.
func (l *link) checkAccount(m *nats.Msg) (without bool, err error) {
	const offForAccount, offInServer = 10039, 10076
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" { // nothing answers such questions
		return true, nil
	}
	var info struct{ Error apiError }
	if err := json.Unmarshal(m.Data, &info); err != nil {
		info.Error = apiError{ErrCode: -1, Description: "what answers for it is not JetStream: " + err.Error()}
	}
	switch failed := info.Error; failed.ErrCode {
	case 0:
		return false, nil
	case offForAccount, offInServer:
		return true, nil
	default:
		return false, publisher.UnavailableError(publisher.ScopeDestination, "no JetStream",
			"JetStream at NATS server %s cannot be used: %s (error %d): check that it is on, in the server and for "+
				"the account, and that most of the servers of its cluster are there", l.server.address,
			failed.Description, failed.ErrCode)
	}
}

// silent is the answer if nothing has come in time.
func (l *link) silent(ctx context.Context) error {
	return publisher.UnavailableError(publisher.ScopeDestination, "no answer",
		"NATS server %s does not answer: %w", l.server.address, context.Cause(ctx))
}
