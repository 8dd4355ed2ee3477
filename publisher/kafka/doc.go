// Package kafka publishes to Apache Kafka 2.4 and newer.
//
// It uses the protocol and the connection of kafka-go, but not its Writer or its Transport. The Writer lingers, appends
// twice after REQUEST_TIMED_OUT, lets later batches overtake a failed one, and fails a whole call for one unknown
// topic. The Transport keeps metadata of its own for all topics of the cluster, makes its callers wait for dials, and
// does not report whether a request was sent. In this package, one request for each leader carries the batches of many
// partitions. Each batch has a producer id and a sequence, so that a batch sent again after a lost answer is appended
// once (see partition).
//
// A call sorts its messages into jobs, one for each partition, and the jobs into groups, one for each leader. It posts
// the next request of each group to the leader's broker. Then it handles events in any order: turns of partitions that
// other calls were using, requests that come back with their outcome, and its own end. Nothing else blocks a call, and
// only the call touches its jobs.
//
// Each [broker] has one goroutine. That goroutine owns the broker's connections, dials, backoff, requests in flight and
// the suspicion that the broker does not answer. Each round trip and each dial under way has a short-lived goroutine in
// addition. All goroutines end with Close. A request that is posted comes back at the latest when its answer is late,
// so that no broker can delay the calls that go to other brokers:
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
//   - away: it comes back at once. The next dial begins when the backoff has passed and a call would send
//     something. Only Ping and other questions of an operator dial before that and wait.
//   - ready: its answer is late after patience, if another broker has answered since the call began. With no
//     such answer no other call is delayed, and the request stays until its own limit.
//   - suspect: one request at a time may wait for the answer, after a dial has shown that the broker is
//     there. All others come back at once. A broker that was away in the meantime is asked at once.
//   - throttled, in addition to any of these: it waits for the end of a short pause, and comes back at once
//     during a long one. A used-up quota is logged once, and its end once, when no long pause has been
//     requested for a minute.
//
// A request that comes back unsent or unheard names the broker as its fate. If its batch was sent, the batch stays with
// the partition until it is resolved.
package kafka
