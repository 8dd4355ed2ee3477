package nats

import (
	"context"
	"time"
)

// BePatient takes a stream to be in trouble only after the given time without an answer. On a busy machine
// a healthy server may keep a test waiting for longer than the usual time.
func (p *Publisher) BePatient(d time.Duration) { p.patience = d }

// GiveUpAfter shortens the time that a server has to accept a connection.
func (p *Publisher) GiveUpAfter(d time.Duration) { p.connectTimeout = d }

// KnowsLeader reports whether the leader of the stream that takes the subject is known.
func (p *Publisher) KnowsLeader(subject string) bool {
	link, err := p.keeper.Borrow(context.Background(), false)
	if err != nil {
		return false
	}
	defer link.Users.Add(-1)
	s := link.streams.find(subject)
	return s != nil && s.leader != ""
}
