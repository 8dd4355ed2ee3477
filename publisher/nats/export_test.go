package nats

import "time"

// BatchFrom makes atomic batches of keys with n messages or more in a call.
func (p *Publisher) BatchFrom(n int) { p.hot, p.hotSynced = n, n }

// BePatient takes a stream, or JetStream itself, to be in trouble only after the given time without an answer. On a busy machine
// a healthy server may keep a test waiting for longer than the usual time.
func (p *Publisher) BePatient(d time.Duration) { p.haste = haste{answer: d, acknowledge: d} }

// GiveUpAfter shortens the time that a server has to accept a connection.
func (p *Publisher) GiveUpAfter(d time.Duration) { p.connectTimeout = d }

// Asking reports whether a question to JetStream is not answered yet.
func (p *Publisher) Asking() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link.streams.mu.Lock()
	defer p.link.streams.mu.Unlock()
	return !p.link.streams.since.IsZero()
}
