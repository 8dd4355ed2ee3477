package amqp_test

import "testing"

// The tests that need a broker of their own.
func TestOwnBroker(t *testing.T) {
	t.Parallel()
	o := newOwnBroker(t)
	t.Run("neighbours of a refused message", o.neighbours)
	t.Run("mistakes", o.mistakes)
	t.Run("limits of channels", o.channelLimits)
	t.Run("limit of channels of a connection", o.channelMax)
	t.Run("virtual host that is down", o.vhostDown)
	t.Run("right taken away", o.rightTakenAway)
	t.Run("without the right to write", o.readerExamined)
	t.Run("management interface", o.managedExamined)
	t.Run("rotated password", o.rotatedPassword)
	t.Run("expired token", o.expiredToken)
	t.Run("client credentials", o.clientCredentials)
	t.Run("rotated certificate", o.rotatedCertificate)
	t.Run("memory alarm", func(t *testing.T) {
		o.alarm(t, "low on memory", []string{"set_vm_memory_high_watermark", "0.0001"},
			[]string{"set_vm_memory_high_watermark", "0.4"})
	})
	t.Run("disk alarm", func(t *testing.T) {
		o.alarm(t, "low on disk", []string{"set_disk_free_limit", "1000000GB"}, []string{"set_disk_free_limit", "1MB"})
	})
}
