// Package nats publishes to NATS JetStream.
//
// A message counts as accepted once its stream has acknowledged it (PubAck). A plain NATS publish is never enough.
// All messages carry Nats-Msg-Id, so that a message sent again within the stream's duplicate
// window is stored once, and the stream's answer "duplicate" is an acceptance.
//
// The server answers each message separately: it may refuse one and store the next. Order per key therefore rests on
// one rule: at any time, at most one message of each key is unacknowledged. A busy key therefore takes a round trip for
// each message. Streams that allow atomic batches (ADR-50) could take a key's messages at once, but refuse a whole
// batch for one message that they hold already, and sync each batch of a single server to files of its own. An earlier
// version used them: with one key it published 42,000 messages a second instead of 16,600, with ten keys 51,000 instead
// of 43,000, and with a hundred keys fewer than without them.
//
// # The files
//
// In the order in which a message passes them:
//
//   - publisher.go, call.go: the call, the states of its messages, and which one goes next.
//   - exchange.go: sending and taking answers, until the call has nothing left to do.
//   - wire.go, subject.go, limit.go: the message as NATS carries it, and what NATS cannot carry.
//   - link.go: the connection, and the way of an answer to its call.
//   - ack.go, answer.go: what an answer is, and what it means for the message.
//   - stalls.go, streams.go: streams that do not answer, and which stream takes a subject.
//   - kept.go: messages that a call has given up before their answers came.
//   - connect.go, open.go, server.go, auth.go, explain.go: how a connection is made, and why it fails.
//   - ping.go, examine.go, examinestream.go, read.go: readiness, and the commands doctor and verify.
//
// # A message
//
//	        previous of its key accepted          acknowledged, or refused
//	waits -----------------------------> ready ---> sent ------------> done
//	                                       ^         |
//	                                       |         | its stream is silent, and the server is not: the call
//	    the time of the call that sent it  |         v answers Unavailable, and stops waiting
//	    is over, the connection has ended, +------ kept ---> done      a later call has the message: acknowledged
//	    or the stream has another leader                               meanwhile, or still Unavailable
//
// A call (see call.go) owns the first four states of its messages. What is kept belongs to the publisher, since a later
// call may have another connection. The message is sent again only on the way from kept to ready; its answer is then
// [publisher.Republished].
//
// # What always holds
//
//   - At most one message of a key is sent and not answered. The next one becomes ready when the one before it is
//     accepted, in this call or, for a kept one, in a later call.
//   - A message that was sent and has no answer is ambiguous, or it is kept until its answer comes, its time is over or
//     its connection ends. It is never both given up and forgotten.
//   - An answer reaches the call that has sent the message, or the table of kept messages, or nobody: the numbers of
//     calls do not repeat on a link, and each link has an inbox of its own.
//   - A link that was replaced lives until no call and no kept message needs it.
//   - No lock is held while a call waits. The only locks are those of a link, of what it knows of streams, and of the
//     table.
//
// # A connection
//
// One link is up at a time (see connect.Keeper, which draws its states). A call doubts it when nothing has come from
// the server for 0.3 seconds while answers are due. If the server is found silent, and then
//
//   - the same server answers another connection: the old one is closed, and its messages are ambiguous;
//   - another server answers: new messages go there, and those under way wait on the old connection;
//   - nobody answers: new messages are Unavailable, and those under way wait.
//
// No other time limit ends a connection, and none sends a message again before the caller's own limit, the publish
// timeout.
//
// # What servers do
//
// Measured with nats-server 2.15.2, one server and a stream on files, messages of 512 bytes:
//
//   - Sending 1,000 messages and waiting for all of their acknowledgements is as fast as a sliding window of 1,000
//     (120,000 and 123,000 messages a second); with 256 it is 12 % slower. Hence the window of 1,000.
//   - The comparison of ids takes a third of the rate: 7.7 instead of 4.8 µs of the server's processor time for each
//     message. It pays: of 917 messages without an answer when the server was killed, 389 had been stored, and all of
//     these were recognised when they were sent again, also after the restart.
//   - An id is unique in its stream, not in its subject: a message with the same id, another subject and another body
//     gets the answer "duplicate" and is not stored.
//   - A stream whose disk is full answers nothing at all, while its server goes on answering pings.
//   - A server that has changed max_payload by a reload does not tell its clients (nats-server issue 4200).
//   - A publish without permission gets no answer of its own, only an error for the connection as a whole.
//
// # The client library
//
// From nats.go only the connection is used. Its reconnecting is turned off: it holds the connection's lock while it
// dials, keeps what is published in the meantime, and stops for good on some of the server's errors. Its futures for
// acknowledgements are not used either: they take a map entry and, with a time limit, a timer for each message, are
// never resolved if the connection is closed, and repeat a publish that no stream has answered, so that a later message
// overtakes it. A link subscribes once, and passes each answer to the call that its reply subject names.
package nats
