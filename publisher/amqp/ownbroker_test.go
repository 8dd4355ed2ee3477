package amqp_test

import "testing"

// What needs a broker that nobody else uses.
func TestOwnBroker(t *testing.T) {
	t.Parallel()
	o := newOwnBroker(t)
	t.Run("neighbours of a refused message", o.neighbours)
	t.Run("mistakes", o.mistakes)
	t.Run("without the right to write", o.readerExamined)
	t.Run("rotated password", o.rotatedPassword)
	t.Run("rotated certificate", o.rotatedCertificate)
}
