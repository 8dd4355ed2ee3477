// Package kafka publishes to Apache Kafka 2.4 and newer.
//
// It uses the protocol and the connection of kafka-go (0.4.51), but not its Writer or its Transport:
//
//   - The Writer lingers, for a second in each call unless set otherwise. After REQUEST_TIMED_OUT, it appended 100
//     messages twice and reported success. It lets later batches of a partition overtake a failed one, and fails a
//     whole call for one unknown topic. After a change of leader, it took 1.4 to 4.4 seconds to find the new one.
//   - The Transport keeps metadata of its own for all topics of the cluster, makes its callers wait for dials, and does
//     not report whether a request was sent. It reports an unknown topic also when no broker can be reached.
//
// In this package, one request for each leader carries the batches of many partitions. Each batch has a producer id and
// a sequence, so that a batch sent again after a lost answer is appended once (see partition). With messages of 512
// bytes over 48 partitions, such requests cost the client 0.5 µs of processor time for each message; the Writer, which
// sends one request for each partition, took 3.5 µs.
//
// # The files
//
// In the order in which a message passes them:
//
//   - publish.go: the call, from the messages to their answers; kept.go: what earlier calls have left unresolved.
//   - metadata.go, route.go, partitioner.go, free.go: the topics, and the partition of each message.
//   - send.go, job.go: turns of partitions, rounds of requests, and what follows from each answer.
//   - batch.go, clock.go, compression.go, partition.go, producerid.go: the bytes of a batch, and its sequence.
//   - request.go, broker.go, suspect.go, conn.go: requests and connections, and brokers in trouble.
//   - classify.go, fate.go: the meaning of an answer, for the batch and for its messages.
//   - ask.go: questions for metadata and producer ids.
//   - sasl.go, oauth.go, iam.go, explain.go: logins, and the wording of failures.
//   - read.go, examine.go, examinetopic.go: what the commands verify and doctor need.
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
//     during a long one.
//
// A request that comes back unsent or unheard names the broker as its fate. If its batch was sent, the batch stays with
// the partition until it is resolved: the same bytes are sent again, by this call or a later one, and the broker
// recognises them. So no time limit of this package makes a copy. Nothing is sent without a producer id. Where the
// broker has lost the sequence, or answers that it may have appended a batch which has to be divided, the messages that
// may be there twice are publisher.Republished.
//
// A question for metadata or a producer id may be asked of any broker, and twice. It goes to the brokers one after the
// other, with a second for each, until one answers.
//
// # What brokers answer
//
// Measured with Kafka 4.3.1, one batch of a partition at a time. The rules for batches follow from these answers:
//
//   - A batch that is sent again with the same bytes gets success and its first offset, and is not appended again. That
//     holds for the last five batches of a producer in a partition. The one before these gets
//     OUT_OF_ORDER_SEQUENCE_NUMBER (45), and so does a batch with a sequence that was used for another number of
//     records. With the same number, other messages would be taken for the old batch, and acknowledged without being
//     appended. So a sequence is never used for other messages while the outcome of its batch is unknown.
//   - A refused batch does not use up its sequence. After MESSAGE_TOO_LARGE (10), a smaller batch with the same
//     sequence was accepted: a large batch is divided without a new epoch.
//   - The partitions of a request are answered separately: of two, one was appended and the other got 45.
//   - The next epoch with sequence 0 is accepted without a request for it. A batch of the former epoch then gets
//     INVALID_PRODUCER_EPOCH (47), also if it arrives late.
//   - A producer that is new to a partition may begin with any sequence.
//   - After the sequence 2^31-1 comes 0, also within a batch. The negative number of an int32 that overflows gets
//     INVALID_RECORD (87).
//   - After three of six restarts, the first request got NOT_LEADER_OR_FOLLOWER (6). A request for a producer id got
//     COORDINATOR_LOAD_IN_PROGRESS (14) up to four times, 20 ms apart.
//   - A leader answers a request for all of its partitions when the slowest of them has its replicas.
//
// Eight times, a broker was killed under load, and the same batch was sent again until it was accepted. The log then
// held as many messages as were acknowledged, 39,100 to 180,300. Brokers acknowledge from the page cache, before the
// disk has the message; docs/guarantees.md says what that means for a loss of power.
package kafka
