// Package relay moves the rows of an outbox table in PostgreSQL to a broker: each row at least once, in order for each
// key and destination. With a pool and a [github.com/outbox-relay/outbox-relay/publisher.Publisher], such as kafka.New
// makes:
//
//	r, err := relay.New(pool, relay.Config{
//		Destinations: []*relay.Destination{{Publisher: broker}},
//	})
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	return r.Run(ctx) // until ctx ends
//
// [Relay.Run] relays in a service, [Relay.Drain] relays what is pending and returns, and [Relay.Ready] says whether
// the database and the broker have been reached. Any number of processes may relay the same table: they share its rows.
// The table is what sql.Schema prints; [Config.Columns] names the columns of another one.
//
// How the relay works inside is in relay/internal/doc.go.
package relay
