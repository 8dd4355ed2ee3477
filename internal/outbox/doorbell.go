package outbox

// doorbell is what the catalogue says about the doorbell's trigger.
type doorbell struct {
	Found    bool
	Rings    bool // fires for each statement that inserts, in ordinary sessions and perhaps in replicating ones
	Prepares bool // transactions of this server may be prepared, so that the trigger does not ring
	Channel  string
}

// on reports whether each insert into the table notifies the channel.
func (d doorbell) on(channel string) bool {
	return d.Found && d.Rings && !d.Prepares && channel != "" && d.Channel == channel
}
