// Package nats publishes to NATS JetStream.
//
// A message counts as accepted once its stream has acknowledged it (PubAck). A plain NATS publish is never enough.
// All messages carry Nats-Msg-Id, so that a message sent again within the stream's duplicate
// window is stored once, and the stream's answer "duplicate" is an acceptance.
//
// The server answers each message separately: it may refuse one and store the next. Order per key therefore rests on
// one rule: at any time, at most one message of each key is unacknowledged. A busy key therefore takes a round trip for
// each message. Streams that allow atomic batches (ADR-50) could take a key's messages at once, but refuse a whole
// batch for one message that they hold already, and sync each batch of a single server to files of its own.
//
// # A message
//
//	        previous of its key accepted          acknowledged, or refused
//	waits ------------------------------> head ---> sent ------------> done
//	                                       ^         |
//	                                       |         | its stream is silent, and the server is not: the call
//	    the time of the call that sent it  |         v answers Unavailable, and stops waiting
//	    is over, the connection has ended, +------ kept ---> done      a later call has the message: acknowledged
//	    or the stream has another leader                               meanwhile, or still Unavailable
//
// A call (see call.go) owns the first four states of its messages. What is kept belongs to the publisher, since a later
// call may have another connection. The message is sent again only on the way from kept to head; its answer is then
// [publisher.Republished].
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
// From nats.go only the connection is used. Its reconnecting is turned off: it holds the connection's lock while it
// dials, keeps what is published in the meantime, and stops for good on some of the server's errors. Its futures for
// acknowledgements are not used either: they take a map entry and, with a time limit, a timer for each
// message. A link subscribes once, and passes each answer to the call that its reply subject names.
package nats
