package nats

// BatchFrom makes atomic batches of keys with n messages or more in a call.
func (p *Publisher) BatchFrom(n int) { p.hot, p.hotSynced = n, n }
