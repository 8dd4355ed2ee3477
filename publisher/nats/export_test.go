package nats

import "time"

// BatchFrom makes atomic batches of keys with n messages or more in a call.
func (p *Publisher) BatchFrom(n int) { p.hot, p.hotSynced = n, n }

// GiveUpAfter shortens the time that a server has to accept a connection.
func (p *Publisher) GiveUpAfter(d time.Duration) { p.connectTimeout = d }
