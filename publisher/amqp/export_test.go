package amqp

// KnowsFanout reports whether the exchange is known to be a fanout.
func (p *Publisher) KnowsFanout(exchange string) bool {
	known := p.fanouts.known.Load()
	if known == nil {
		return false
	}
	_, ok := (*known)[exchange]
	return ok
}
