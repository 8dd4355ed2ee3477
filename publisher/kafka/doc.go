// Package kafka publishes to Apache Kafka 2.4 and newer.
//
// It uses the protocol and the connection of kafka-go, but not its Writer or its Transport. The Writer lingers, appends
// twice after REQUEST_TIMED_OUT, lets later batches overtake a failed one, and fails a whole call for one unknown
// topic. The Transport keeps metadata of its own for all topics of the cluster, makes its callers wait for dials, and
// does not report whether a request was sent. In this package, one request for each leader carries the batches of many
// partitions. Each batch has a producer id and a sequence, so that a batch sent again after a lost answer is appended
// once (see partition).
//
// # A call
//
// A call of Publish gives each message its partition, and makes one job for each partition. A job waits until it has
// the turn of its partition, so that one batch of a partition is on the wire at a time. In each round, the call sends
// one request to each leader, with the batches of all jobs that are ready. Then it waits
// for the next event: a turn, a request that has come back, or its own end. Only the call touches its jobs:
//
//	         turn              round               answer
//	waiting ─────▶ ready ────────────────▶ sending ──────▶ ready … finished
//	                 ▲                        │
//	                 └──────── moved ◀────────┘ wrong leader, or no answer: once
//
// Messages of a key that go to several partitions are sent in several waves: the next one when the previous one is
// accepted.
//
// # A broker
//
// What is known of the brokers is guarded by one lock, so that a decision may depend on several of them. Requests are
// sent by a goroutine each, which lives until the request is over; so does that of a dial. All goroutines end with
// Close. A request comes back at the latest when its answer is late, so that no broker can delay the calls that go to
// others:
//
//	            dial succeeds                 an answer is late
//	┌──────┐ ─────────────────▶ ┌───────┐ ────────────────────▶ ┌─────────┐
//	│ away │                    │ ready │                       │ suspect │─┐ again: a pause,
//	└──────┘ ◀───────────────── └───────┘ ◀──────────────────── └─────────┘◀┘ three times as long
//	   ▲        dial fails                 an answer in time         │
//	   └─────────────────────────────────────────────────────────────┘
//	                              dial fails
//
// The outcome of a request depends on the state:
//
//   - away: it comes back at once. A dial begins in the background when the backoff has passed. Only Ping and other
//     questions of an operator dial before that and wait. While there are other brokers, a dial that takes longer than
//     patience counts as failed until it succeeds.
//   - ready: its answer is late after patience, if another broker has answered since the call began. With no
//     such answer no other call is delayed, and the request stays until its own limit.
//   - suspect: one request at a time may wait for the answer, after a dial has shown that the broker is
//     there. All others come back at once. A broker that was away in the meantime is asked at once.
//   - throttled, in addition to any of these: it waits for the end of a short pause, and comes back at once
//     during a long one. A used-up quota is logged once, until no long pause has been requested for a minute.
//
// A request that comes back unsent or unheard names the broker as its fate. If its batch was sent, the batch stays with
// the partition until it is resolved: the same bytes are sent again, by this call or a later one, and the broker
// recognises them. So no time limit of this package makes a copy. Nothing is sent without a producer id. Where the
// broker has lost the sequence, or answers that it may have appended a batch which has to be divided, the messages that
// may be there twice are publisher.Republished.
//
// A question for metadata or a producer id may be asked of any broker, and twice. It goes to the brokers one after the
// other, a quarter of a second apart, until one answers.
package kafka
